package store

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"strings"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ephor-dev/ephor/internal/decision"
)

// eventName is the event name of decisions.
const eventName = "ephor.decision"

// OTLP sends decisions as logs to an OpenTelemetry collector.
type OTLP struct {
	conn   *grpc.ClientConn
	client collector.LogsServiceClient
}

// NewOTLP returns the store at an address: otlp://HOST:PORT over TLS with the authorities of the system, otlp+insecure://HOST:PORT without TLS.
func NewOTLP(address string) (*OTLP, error) {
	host, secure := strings.CutPrefix(address, "otlp://")
	creds := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	if !secure {
		host, creds = strings.TrimPrefix(address, "otlp+insecure://"), insecure.NewCredentials()
	}
	if name, port, err := net.SplitHostPort(host); err != nil || name == "" || port == "" {
		return nil, fmt.Errorf("%q is not otlp://HOST:PORT", address)
	}
	conn, err := grpc.NewClient("dns:///"+host, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, err
	}
	return &OTLP{conn: conn, client: collector.NewLogsServiceClient(conn)}, nil
}

// Write implements decision.Store.
func (s *OTLP) Write(ctx context.Context, records []decision.Record) error {
	out := make([]*logs.LogRecord, len(records))
	for i := range records {
		r := &records[i]
		body, err := json.Marshal(r)
		if err != nil {
			return err
		}
		severity := logs.SeverityNumber_SEVERITY_NUMBER_INFO
		if r.Verdict == decision.Refused || r.Verdict == decision.Erred || r.Verdict == decision.Violating {
			severity = logs.SeverityNumber_SEVERITY_NUMBER_WARN
		}
		out[i] = &logs.LogRecord{
			TimeUnixNano: uint64(r.Time.UnixNano()), ObservedTimeUnixNano: uint64(r.Time.Add(r.Duration).UnixNano()), SeverityNumber: severity, EventName: eventName,
			Body: text(string(body)), Attributes: attributes(
				"event.name", eventName, "user.name", r.User, "k8s.namespace.name", r.Namespace, "ephor.decision.verdict", string(r.Verdict), "ephor.decision.uid", r.UID,
				"ephor.decision.operation", r.Operation, "ephor.decision.kind", r.Kind, "ephor.decision.name", r.Name, "ephor.decision.policies", strings.Join(policiesOf(r), ","),
			),
		}
	}
	cluster := ""
	if len(records) > 0 {
		cluster = records[0].Cluster // a process records the decisions of one cluster
	}
	answer, err := s.client.Export(ctx, &collector.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: attributes("service.name", "ephor", "k8s.cluster.name", cluster)},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: decision.Schema}, LogRecords: out}},
	}}}, grpc.WaitForReady(true))
	if err != nil {
		return fmt.Errorf("send decisions to the collector: %w", err)
	}
	if n := answer.GetPartialSuccess().GetRejectedLogRecords(); n > 0 {
		return &decision.PartlyStored{Lost: int(min(n, int64(len(records)))), Err: fmt.Errorf("the collector rejected %d decisions: %q", n, answer.GetPartialSuccess().GetErrorMessage())}
	}
	return nil
}

// policiesOf returns the policies with a result.
func policiesOf(r *decision.Record) (out []string) {
	for _, x := range r.Rules {
		if len(out) == 0 || out[len(out)-1] != x.Policy {
			out = append(out, x.Policy)
		}
	}
	return out
}

// attributes returns the attributes for pairs of names and values, which alternate. It leaves out those without a value.
func attributes(pairs ...string) (out []*common.KeyValue) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, &common.KeyValue{Key: pairs[i], Value: text(pairs[i+1])})
		}
	}
	return out
}

// text returns a value of OTLP in valid UTF-8; a message with other bytes could not be sent.
func text(v string) *common.AnyValue {
	return &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: strings.ToValidUTF8(v, "\ufffd")}}
}

// Close implements decision.Store.
func (s *OTLP) Close() error { return s.conn.Close() }

package store

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"ephor.invalid/ephor/internal/decision"
)

// eventName is the event name of decisions.
const eventName = "ephor.decision"

// maxMessage is the length of a message that a collector accepts by default, in bytes.
const maxMessage = 4 << 20

// OTLP sends decisions as logs to an OpenTelemetry collector.
type OTLP struct {
	target string
	creds  credentials.TransportCredentials
	conn   *grpc.ClientConn // nil before the first message, and after one that failed
}

// otlpRow and insecureOTLPRow are the rows of the store in the table of stores.
var (
	otlpRow         = row{prefix: "otlp://", form: "otlp://HOST:PORT", is: "an OpenTelemetry collector", open: openOTLP}
	insecureOTLPRow = row{prefix: "otlp+insecure://", open: openOTLP}
)

func openOTLP(address string, _ Options) (decision.Store, error) { return NewOTLP(address) }

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
	return &OTLP{target: "dns:///" + host, creds: creds}, nil
}

// Write implements decision.Store. It divides a batch that is too long for one message.
func (s *OTLP) Write(ctx context.Context, records []decision.Record) error {
	return inParts(records, func(part []decision.Record) error { return s.writePart(ctx, part) })
}

func (s *OTLP) writePart(ctx context.Context, records []decision.Record) error {
	var lost decision.Lost
	message := messageOf(records)
	list := message.ResourceLogs[0].ScopeLogs[0]
	for i := range records {
		one, err := eventOf(&records[i])
		if err != nil {
			lost.Add(1, err)
			continue
		}
		list.LogRecords = append(list.LogRecords, one)
	}
	if n := proto.Size(message); n > maxMessage {
		return tooLong(n)
	}
	if n := len(list.LogRecords); n > 0 {
		if err := s.send(ctx, message); err != nil {
			lost.Add(n, err)
		}
	}
	return lost.Err()
}

// messageOf returns the message for records, without their events.
func messageOf(records []decision.Record) *collector.ExportLogsServiceRequest {
	cluster := ""
	if len(records) > 0 {
		cluster = records[0].Cluster // a process records the decisions of one cluster
	}
	return &collector.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
		Resource:  &resource.Resource{Attributes: attributes("service.name", "ephor", "k8s.cluster.name", cluster)},
		ScopeLogs: []*logs.ScopeLogs{{Scope: &common.InstrumentationScope{Name: decision.Schema}}},
	}}}
}

// eventOf returns the event of a record.
func eventOf(r *decision.Record) (*logs.LogRecord, error) {
	body, err := r.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	severity := logs.SeverityNumber_SEVERITY_NUMBER_INFO
	if r.Verdict == decision.Refused || r.Verdict == decision.Erred || r.Verdict == decision.Violating {
		severity = logs.SeverityNumber_SEVERITY_NUMBER_WARN
	}
	return &logs.LogRecord{
		TimeUnixNano: uint64(r.Time.UnixNano()), ObservedTimeUnixNano: uint64(r.Time.Add(r.Duration).UnixNano()), SeverityNumber: severity, EventName: eventName,
		Body: text(string(body)), Attributes: attributes(
			"event.name", eventName, "user.name", r.User, "k8s.namespace.name", r.Namespace, "ephor.decision.verdict", string(r.Verdict), "ephor.decision.uid", r.UID,
			"ephor.decision.operation", r.Operation, "ephor.decision.kind", r.Kind, "ephor.decision.name", r.Name, "ephor.decision.policies", strings.Join(policiesOf(r), ","),
		),
	}, nil
}

// send sends one message. While the collector cannot take it, as during a restart, it sends the message again until ctx is done. After another
// failure, the next one has a new connection: a collector that vanished does not close the old one.
func (s *OTLP) send(ctx context.Context, message *collector.ExportLogsServiceRequest) error {
	if s.conn == nil {
		conn, err := grpc.NewClient(s.target, grpc.WithTransportCredentials(s.creds))
		if err != nil {
			return err
		}
		s.conn = conn
	}
	var answer *collector.ExportLogsServiceResponse
	err := attempts(ctx, func() (again bool, err error) {
		answer, err = collector.NewLogsServiceClient(s.conn).Export(ctx, message, grpc.WaitForReady(true))
		return status.Code(err) == codes.Unavailable, err
	})
	if err != nil {
		return errors.Join(fmt.Errorf("send decisions to the collector: %w", err), s.Close())
	}
	sent := len(message.ResourceLogs[0].ScopeLogs[0].LogRecords)
	if n := answer.GetPartialSuccess().GetRejectedLogRecords(); n > 0 {
		return &decision.PartlyStored{Lost: int(min(n, int64(sent))), Err: fmt.Errorf("the collector rejected %d decisions: %q", n, answer.GetPartialSuccess().GetErrorMessage())}
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
func (s *OTLP) Close() error {
	if s.conn == nil {
		return nil
	}
	conn := s.conn
	s.conn = nil
	return conn.Close()
}

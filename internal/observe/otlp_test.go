package observe

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// collector is an OTLP collector on loopback.
type collector struct {
	collectormetrics.UnimplementedMetricsServiceServer
	collectortrace.UnimplementedTraceServiceServer

	mu      sync.Mutex
	metrics map[string]*metricsv1.Metric
	points  map[string]int // by the name of the metric
	service string
	spans   []*tracev1.Span
}

type traces struct{ *collector }

func (c *collector) Export(_ context.Context, r *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rm := range r.ResourceMetrics {
		c.service = text(rm.Resource.Attributes, "service.name") + " " + text(rm.Resource.Attributes, "service.version")
		for _, sm := range rm.ScopeMetrics {
			for _, m := range sm.Metrics {
				c.metrics[m.Name] = m
				c.points[m.Name] += len(m.GetSum().GetDataPoints()) + len(m.GetGauge().GetDataPoints()) + len(m.GetHistogram().GetDataPoints())
			}
		}
	}
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

func (c traces) Export(_ context.Context, r *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		c.service = text(rs.Resource.Attributes, "service.name")
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

func text(attributes []*commonv1.KeyValue, key string) string {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// collect starts a collector, with TLS if secure is set.
func collect(t *testing.T, secure bool) (*collector, Collector) {
	t.Helper()
	var options []grpc.ServerOption
	var client *tls.Config
	if secure {
		certificate, roots := selfSigned(t)
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&certificate)))
		client = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &collector{metrics: map[string]*metricsv1.Metric{}, points: map[string]int{}}
	server := grpc.NewServer(options...)
	collectormetrics.RegisterMetricsServiceServer(server, c)
	collectortrace.RegisterTraceServiceServer(server, traces{c})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return c, Collector{Address: l.Addr().String(), TLS: client}
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// The numbers of /metrics reach a collector. The last ones are sent when the process ends.
func TestExport(t *testing.T) {
	for _, secure := range []bool{false, true} {
		c, to := collect(t, secure)
		m := NewMetrics(Options{Version: "v1.2.3"})
		p, r := program("require-labels")
		m.Evaluated(outcome(p, r, "default", policy.StatusFail))
		m.HTTP(http.NotFoundHandler()).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "https://kyverno-svc.kyverno.svc/x", nil))
		m.Certificates(func(report func(string, time.Time)) { report("tls", time.Unix(1000, 0)) })
		m.TrustRoots(func(report func(string, bool, time.Time, int)) {
			report("https://tuf.example", true, time.Unix(2000, 0), 3)
			report("https://never.example", false, time.Time{}, 1)
		})
		ctx, stop := context.WithCancel(t.Context())
		stop() // the process ends: the last numbers are sent
		var log bytes.Buffer
		if err := m.export(ctx, to, slog.New(slog.NewTextHandler(&log, nil)), time.Minute); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		if c.service != "kyverno v1.2.3" {
			t.Errorf("service %q: %s", c.service, &log)
		}
		sum := c.metrics["kyverno_policy_results"].GetSum()
		if sum == nil || !sum.IsMonotonic || len(sum.DataPoints) != 1 || sum.DataPoints[0].GetAsInt() != 1 {
			t.Fatalf("%v", c.metrics["kyverno_policy_results"])
		}
		if got := text(sum.DataPoints[0].Attributes, "policy_name") + " " + text(sum.DataPoints[0].Attributes, "rule_result"); got != "require-labels fail" {
			t.Error(got)
		}
		h := c.metrics["kyverno_policy_execution_duration_seconds"].GetHistogram()
		if h == nil || len(h.DataPoints) != 1 || h.DataPoints[0].Count != 1 || h.DataPoints[0].GetSum() != 0.002 || h.DataPoints[0].BucketCounts[0] != 1 || len(h.DataPoints[0].ExplicitBounds) != 15 {
			t.Errorf("%v", h)
		}
		// Metrics for which OpenTelemetry has a convention have the conventional names.
		served := c.metrics["http.server.request.duration"]
		if points := served.GetHistogram().GetDataPoints(); served.GetUnit() != "s" || len(points) != 1 {
			t.Errorf("%v", served)
		} else {
			code := slices.IndexFunc(points[0].Attributes, func(a *commonv1.KeyValue) bool { return a.Key == "http.response.status_code" })
			if code < 0 || points[0].Attributes[code].Value.GetIntValue() != http.StatusNotFound ||
				text(points[0].Attributes, "server.address")+" "+text(points[0].Attributes, "http.request.method") != "kyverno-svc.kyverno.svc POST" {
				t.Errorf("%v", points[0].Attributes)
			}
		}
		if g := c.metrics["ephor_trust_root_updated_timestamp_seconds"].GetGauge(); g == nil || len(g.DataPoints) != 1 || g.DataPoints[0].GetAsDouble() != 2000 {
			t.Errorf("%v", g)
		}
		if g := c.metrics["ephor_trust_root_failures"].GetGauge(); g == nil || len(g.DataPoints) != 2 {
			t.Errorf("%v", g)
		}
		if g := c.metrics["ephor_certificate_expiry_timestamp_seconds"].GetGauge(); g == nil || g.DataPoints[0].GetAsDouble() != 1000 {
			t.Errorf("%v", g)
		}
		c.mu.Unlock()
	}
}

// A collector takes requests of at most 4 MiB, the default of gRPC: more series are sent in several requests.
func TestExportManySeries(t *testing.T) {
	c, to := collect(t, false)
	m := NewMetrics(Options{})
	const namespaces = 1800
	long := strings.Repeat("n", 300)
	p, r := program(long)
	r.Name = long
	for i := range namespaces {
		m.Evaluated(outcome(p, r, fmt.Sprintf("%d-%s", i, long), policy.StatusPass))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var log bytes.Buffer
	if err := m.export(ctx, to, slog.New(slog.NewTextHandler(&log, nil)), time.Minute); err != nil || log.Len() > 0 {
		t.Fatal(err, &log)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, want := range map[string]int{"kyverno_policy_results": namespaces, "kyverno_policy_execution_duration_seconds": namespaces, "kyverno_info": 1} {
		if c.points[name] != want {
			t.Errorf("%s: %d series, want %d", name, c.points[name], want)
		}
	}
}

// An unreachable collector causes only one log line.
func TestExportWithoutCollector(t *testing.T) {
	var log bytes.Buffer
	ctx, stop := context.WithCancel(t.Context())
	stop()
	m := NewMetrics(Options{})
	if err := m.Export(ctx, Collector{Address: "127.0.0.1:1"}, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "the collector of metrics does not answer") {
		t.Error(got)
	}
}

// One trace contains the request, the policies and rules, their lookups, and the resulting requests to the API server. The audit after the
// answer has a separate trace, which is linked to the first.
func TestTrace(t *testing.T) {
	c, to := collect(t, false)
	tracer, err := NewTracer(t.Context(), to, "admission", "v1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	client := &http.Client{Transport: tracer.RoundTripper(http.DefaultTransport)}
	p, evaluate := program("require-labels")
	evaluate.Match = func(context.Context, *policy.Request) (bool, error) { return true, nil }
	evaluate.Eval = func(s *policy.Call) policy.Yield {
		if _, err := s.Env.World.Objects.Get(s.Env.Meter.Context(), "v1", "ConfigMap", "default", "teams"); err != nil {
			t.Error(err)
		}
		return policy.Yield{Status: policy.StatusError, Message: "no team: hunter2"}
	}
	other := &policy.Rule{Name: "other", Stage: policy.StageValidate, Matching: policy.Matching{Match: func(context.Context, *policy.Request) (bool, error) { return false, nil }}}
	p.Rules = append(p.Rules, other)
	reads := world.RootFunc(func(world.Reach) world.World {
		return world.World{Objects: func(ctx context.Context, _ world.ObjectRequest) (map[string]any, error) {
			r, _ := http.NewRequestWithContext(ctx, http.MethodGet, api.URL+"/api/v1/namespaces/default/configmaps/teams", nil)
			res, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return nil, err
			}
			res.Body.Close()
			return map[string]any{}, nil
		}}
	})
	eval := tracer.Eval(engine.Eval)
	req := outcome(p, evaluate, "default", 0).Request
	req.UID = "abc"
	req.GVR.Group, req.GVR.Resource = "", "secrets"
	req.Object = value.FromJSON(`{"data":{"password":"aHVudGVyMg=="}}`)
	in := engine.Input{Selections: []policy.Selection{{Program: p, Rules: p.Rules}}, Request: req, Stages: policy.StageValidate, Root: tracer.World(reads)}
	var later context.Context
	handler := tracer.HTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		eval(r.Context(), in)
		tracer.Reviewed(r.Context(), req, policy.Decision{Message: "no, hunter2", Warnings: []string{"aHVudGVyMg=="}})
		later = tracer.Later(r.Context())
	}))
	r := httptest.NewRequest(http.MethodPost, "/validate/fail?timeout=10s", nil)
	r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	handler.ServeHTTP(httptest.NewRecorder(), r)
	eval(later, in)
	handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/health/readiness", nil)) // no span
	if err := tracer.Close(); err != nil {
		t.Fatal(err)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if c.service != "kyverno-admission-controller" {
		t.Errorf("service %q", c.service)
	}
	names := map[string]string{} // by id
	for _, s := range c.spans {
		names[string(s.SpanId)] = s.Name
	}
	var got []string
	for _, s := range c.spans {
		line := s.Name + " < " + names[string(s.ParentSpanId)]
		if len(s.Links) > 0 {
			line += " ~ " + names[string(s.Links[0].SpanId)]
		}
		got = append(got, line)
	}
	slices.Sort(got)
	want := []string{
		"ADMISSION POST /validate/fail < ",
		"AUDIT CREATE Pod <  ~ ADMISSION POST /validate/fail",
		"CONTEXT ConfigMap default/teams < RULE check-team",
		"CONTEXT ConfigMap default/teams < RULE check-team",
		"KUBE GET ConfigMap < CONTEXT ConfigMap default/teams",
		"KUBE GET ConfigMap < CONTEXT ConfigMap default/teams",
		"POLICY /require-labels < ADMISSION POST /validate/fail",
		"POLICY /require-labels < AUDIT CREATE Pod",
		"RULE check-team < POLICY /require-labels",
		"RULE check-team < POLICY /require-labels",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, s := range c.spans {
		switch s.Name {
		case "ADMISSION POST /validate/fail":
			if text(s.Attributes, "admission.response.result.message") != "no, "+decision.Redacted || strings.Contains(fmt.Sprint(s.Attributes), "aHVudGVyMg==") || text(s.Attributes, "admission.request.uid") != "abc" {
				t.Errorf("%v", s.Attributes)
			}
			if got := s.TraceId; len(got) == 0 || got[0] != 0x0a {
				t.Errorf("the trace is not the caller's: %x", got)
			}
		case "RULE check-team":
			if s.Status.GetMessage() != "no team: "+decision.Redacted || text(s.Attributes, "kyverno.rule.result") != "error" {
				t.Errorf("%v %v", s.Status, s.Attributes)
			}
		}
	}
}

// Without tracing, no handler is wrapped.
func TestNoTracer(t *testing.T) {
	var tracer *Tracer
	if tracer.World(nil) != nil || tracer.RoundTripper(http.DefaultTransport) != http.DefaultTransport || tracer.Close() != nil {
		t.Error("something is wrapped")
	}
	if ctx := tracer.Later(t.Context()); ctx != context.Background() {
		t.Error("the context of the request lives on")
	}
	tracer.Reviewed(t.Context(), &policy.Request{}, policy.Decision{})
}

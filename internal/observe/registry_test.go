package observe

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ephor.invalid/ephor/internal/policy"
)

// A metric at its limit counts in series whose open labels are "other". Their other labels keep their true values, so that sums by those
// stay correct. A metric reports the overflow.
func TestCap(t *testing.T) {
	m := NewMetrics(Options{MaxSeries: 10})
	p, r := program("require-labels")
	for i := range 50 {
		m.Evaluated(outcome(p, r, fmt.Sprintf("ns-%d", i), policy.StatusPass))
		m.Evaluated(outcome(p, r, fmt.Sprintf("ns-%d", i), policy.StatusFail))
	}
	families := parsePage(t, page(t, m))
	sums := map[string]float64{}
	others := 0
	for _, s := range families["kyverno_policy_results_total"].Metric {
		labels := map[string]string{}
		for _, l := range s.Label {
			labels[l.GetName()] = l.GetValue()
		}
		sums[labels["rule_result"]] += s.Counter.GetValue()
		if labels["resource_namespace"] == other {
			others++
			if labels["policy_name"] != other || labels["rule_name"] != other || labels["resource_kind"] != other {
				t.Errorf("an open label is left: %v", labels)
			}
			if labels["rule_type"] != "validate" || labels["policy_validation_mode"] != "enforce" {
				t.Errorf("a closed label is lost: %v", labels)
			}
		}
	}
	if sums["pass"] != 50 || sums["fail"] != 50 || others != 2 {
		t.Errorf("sums %v, %d series of others", sums, others)
	}
	if n := len(families["kyverno_policy_results_total"].Metric); n != 12 {
		t.Errorf("%d series", n)
	}
	contains(t, page(t, m), `ephor_metric_overflow_total{metric="kyverno_policy_results_total",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 90`)
}

// All names that users choose can be values of labels.
func TestValues(t *testing.T) {
	m := NewMetrics(Options{})
	for _, name := range []string{"a\"b\\c\nd", "\xff\xfe", strings.Repeat("ü", 1000), "{}", ""} {
		p, r := program(name)
		m.Evaluated(outcome(p, r, "default", policy.StatusPass))
		m.Evaluated(outcome(p, r, "default", policy.StatusPass))
	}
	families := parsePage(t, page(t, m))
	got := map[string]float64{}
	for _, s := range families["kyverno_policy_results_total"].Metric {
		for _, l := range s.Label {
			if l.GetName() == "policy_name" {
				got[l.GetValue()] = s.Counter.GetValue()
				if len(l.GetValue()) > longest {
					t.Errorf("%d bytes", len(l.GetValue()))
				}
			}
		}
	}
	for _, name := range []string{"a\"b\\c\nd", "�", "{}", "", strings.Repeat("ü", longest/2)} {
		if got[name] != 2 {
			t.Errorf("%q: %v in %v", name, got[name], got)
		}
	}
}

// Requests are counted while the configuration changes and pages are written.
func TestConcurrency(t *testing.T) {
	m := NewMetrics(Options{MaxSeries: 20})
	m.Policies(func() []PolicyState { p, _ := program("x"); return []PolicyState{{p, true}} })
	handler := m.HTTP(m.Handler())
	p, r := program("require-labels")
	var running sync.WaitGroup
	for g := range 4 {
		running.Go(func() {
			for i := range 200 {
				m.Evaluated(outcome(p, r, fmt.Sprintf("ns-%d", i%30), policy.Status(1+i%5)))
				m.Reviewed(outcome(p, r, "x", 1).Request, "ValidatingWebhookConfiguration", g%2 == 0, time.Millisecond)
				switch i % 20 {
				case 3:
					m.Configure(Config{Exclude: []string{"x"}, Exposure: map[string]Exposure{nameResults: {DisabledLabelDimensions: []string{"rule_name"}}}})
				case 9:
					m.Configure(Config{})
				case 13:
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/validate/fail?timeout=10s", nil))
				case 17:
					m.forget()
					m.PolicyChanged(p, Updated)
				}
			}
		})
	}
	running.Wait()
}

func BenchmarkEvaluated(b *testing.B) {
	m := NewMetrics(Options{})
	p, r := program("require-labels")
	out := outcome(p, r, "default", policy.StatusPass)
	for range 17 {
		out.Results = append(out.Results, out.Results[0])
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Evaluated(out)
	}
}

// BenchmarkVectors measures what BenchmarkEvaluated does with the vectors of client_golang: found anew for each result, and with the series found
// before, as resultCache does.
func BenchmarkVectors(b *testing.B) {
	labels := make([]string, len(ruleLabels))
	for i, l := range ruleLabels {
		labels[i], _ = cutMark(l)
	}
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "results"}, labels)
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "took"}, labels)
	p, r := program("require-labels")
	out := outcome(p, r, "default", policy.StatusPass)
	b.Run("found", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for range 18 {
				values := ruleValues(&out.Results[0], out.Request)
				counts.WithLabelValues(values...).Inc()
				took.WithLabelValues(values...).Observe(out.Results[0].Elapsed.Seconds())
			}
		}
	})
	for name, of := range map[string]func() http.Handler{
		"page": func() http.Handler {
			all := prometheus.NewRegistry()
			all.MustRegister(counts, took)
			for i := range 1000 {
				values := ruleValues(&out.Results[0], outcome(p, r, fmt.Sprint("ns", i), policy.StatusPass).Request)
				counts.WithLabelValues(values...).Inc()
				took.WithLabelValues(values...).Observe(1)
			}
			return promhttp.HandlerFor(all, promhttp.HandlerOpts{})
		},
		"page without vectors": func() http.Handler {
			m := NewMetrics(Options{})
			for i := range 1000 {
				m.Evaluated(outcome(p, r, fmt.Sprint("ns", i), policy.StatusPass))
			}
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = m.write(w, nil) })
		},
	} {
		b.Run(name, func(b *testing.B) {
			handler, r := of(), httptest.NewRequest("GET", "/metrics", nil)
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(discarded{}, r)
			}
		})
	}
	b.Run("cached", func(b *testing.B) {
		values := ruleValues(&out.Results[0], out.Request)
		type series struct {
			count prometheus.Counter
			took  prometheus.Observer
		}
		cached := map[resultKey]series{{r, policy.StatusPass}: {counts.WithLabelValues(values...), took.WithLabelValues(values...)}}
		b.ReportAllocs()
		for b.Loop() {
			for range 18 {
				s := cached[resultKey{out.Results[0].Rule, out.Results[0].Status}]
				s.count.Inc()
				s.took.Observe(out.Results[0].Elapsed.Seconds())
			}
		}
	})
}

// discarded is a response without a reader.
type discarded struct{}

func (discarded) Header() http.Header         { return http.Header{} }
func (discarded) WriteHeader(int)             {}
func (discarded) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkReviewed(b *testing.B) {
	m := NewMetrics(Options{})
	req := outcome(nil, nil, "default", policy.StatusPass).Request
	b.ReportAllocs()
	for b.Loop() {
		m.Reviewed(req, "ValidatingWebhookConfiguration", true, time.Millisecond)
	}
}

// BenchmarkPage measures a scrape of a process with a thousand series for each metric.
func BenchmarkPage(b *testing.B) {
	m := NewMetrics(Options{})
	fill(m, 1000)
	handler := m.Handler()
	b.ReportAllocs()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept-Encoding", "gzip") // as Prometheus asks
	for b.Loop() {
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// BenchmarkHTTP measures the cost of counting for a request.
func BenchmarkHTTP(b *testing.B) {
	m := NewMetrics(Options{})
	handler := m.HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest(http.MethodPost, "/validate/fail?timeout=10s", nil)
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(w, r)
	}
}

package observe

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// chartExposure is the metricsExposure of Kyverno's chart, with which the pages were recorded.
const chartExposure = `{
	"kyverno_policy_execution_duration_seconds": {"enabled": true, "disabledLabelDimensions": ["resource_namespace", "resource_request_operation"]},
	"kyverno_validating_policy_execution_duration_seconds": {"enabled": true, "disabledLabelDimensions": ["resource_namespace", "resource_request_operation"]},
	"kyverno_image_validating_policy_execution_duration_seconds": {"enabled": true, "disabledLabelDimensions": ["resource_namespace", "resource_request_operation"]},
	"kyverno_mutating_policy_execution_duration_seconds": {"enabled": true, "disabledLabelDimensions": ["resource_namespace", "resource_request_operation"]},
	"kyverno_generating_policy_execution_duration_seconds": {"enabled": true, "disabledLabelDimensions": ["resource_namespace", "resource_request_operation"]},
	"kyverno_admission_review_duration_seconds": {"enabled": true, "disabledLabelDimensions": ["resource_namespace"]},
	"kyverno_policy_rule_info_total": {"enabled": true, "disabledLabelDimensions": ["resource_namespace", "policy_namespace"]}}`

// TestRecordedMetrics compares our metrics with the recorded pages of Kyverno's four controllers: each recorded metric exists and has the
// same type, and its series have the same labels.
func TestRecordedMetrics(t *testing.T) {
	pages, _ := filepath.Glob(filepath.Join(os.Getenv("EPHOR_REFERENCE"), "recordings", "metrics-*.txt"))
	if os.Getenv("EPHOR_REFERENCE") == "" || len(pages) == 0 {
		t.Skip("EPHOR_REFERENCE names no folder with recorded metrics")
	}
	c, diags := ParseConfig(map[string]string{"metricsExposure": chartExposure})
	if len(diags) > 0 {
		t.Error("the configuration of Kyverno's chart: ", diags)
	}
	ours := parsePage(t, everything(t, c))
	compared := 0
	for _, file := range pages {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range parsePage(t, string(text)) {
			got := ours[name]
			if got == nil {
				t.Errorf("%s: there is no %s", filepath.Base(file), name)
				continue
			}
			compared++
			if got.GetType() != want.GetType() {
				t.Errorf("%s is a %s, want %s", name, got.GetType(), want.GetType())
			}
			for _, m := range want.Metric {
				if g, w := labelNames(got.Metric[0]), labelNames(m); !slices.Equal(g, w) {
					t.Errorf("%s: %s has the labels %s, want %s", filepath.Base(file), name, g, w)
				}
			}
			if s := got.Metric[0]; scopeOf(s) != scopeOf(want.Metric[0]) {
				t.Errorf("%s has the scope %s, want %s", name, scopeOf(s), scopeOf(want.Metric[0]))
			}
		}
	}
	if compared < 200 {
		t.Errorf("only %d metrics were compared", compared)
	}
}

// everything returns the page of a process in which each event happened once.
func everything(t testing.TB, c Config) string {
	m := NewMetrics(Options{Version: "v1"})
	m.Configure(c)
	fill(m, 1)
	return page(t, m)
}

// fill gives each instrument n series.
func fill(m *Metrics, n int) {
	for _, f := range m.ordered {
		f.collect = nil
		for i := range n {
			values := make([]string, len(f.Labels))
			for k := range values {
				values[k] = f.Labels[k] + "-" + strings.Repeat("x", i)
			}
			s := f.with(values...)
			if f.Kind == Histogram {
				s.observe(0.02)
			} else {
				s.add(1)
			}
		}
	}
}

func parsePage(t testing.TB, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func labelNames(m *dto.Metric) []string {
	var out []string
	for _, l := range m.Label {
		out = append(out, l.GetName())
	}
	slices.Sort(out)
	return out
}

func scopeOf(m *dto.Metric) string {
	var out []string
	for _, l := range m.Label {
		if strings.HasPrefix(l.GetName(), "otel_") {
			out = append(out, l.GetName()+"="+l.GetValue())
		}
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

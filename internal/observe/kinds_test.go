package observe

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

// Kinds with their own metrics have the same labels as in Kyverno. These metrics do not count classic policies, and the metrics for
// classic policies do not count these kinds.
func TestMetricsOfKinds(t *testing.T) {
	m := NewMetrics(Options{})
	rest := `otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",`
	background, mode := `policy_background_mode="true",`, `policy_validation_mode="Deny",`
	names := `policy_name="p",policy_namespace="",`
	end := `resource_kind="Pod",resource_namespace="shop",resource_request_operation="create",result="fail"} 1`
	for kind, want := range map[string]string{
		"ValidatingPolicy": `kyverno_validating_policy_results_total{execution_cause="admission_request",` + rest + background + names + mode + end,
		"MutatingPolicy":   `kyverno_mutating_policy_results_total{execution_cause="admission_request",` + rest + background + names + end,
		"GeneratingPolicy": `kyverno_generating_policy_results_total{execution_cause="background_scan",` + rest + names + end,
	} {
		p, r := program("p")
		p.Kind, p.Names = kind, compile.Kinds.Named(kind).Names()
		m.Evaluated(outcome(p, r, "shop", policy.StatusFail))
		contains(t, page(t, m), want)
	}
	if text := page(t, m); strings.Contains(text, "\nkyverno_policy_results") {
		t.Error("the results count among those of other policies, too")
	}
	p, r := program("classic")
	m.Evaluated(outcome(p, r, "shop", policy.StatusFail))
	for line := range strings.Lines(page(t, m)) {
		if strings.Contains(line, `"classic"`) && !strings.HasPrefix(line, "kyverno_policy_") {
			t.Errorf("the result of a classic policy counts elsewhere: %s", line)
		}
	}
}

package observe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// program returns a policy with one enforcing rule.
func program(name string) (*policy.Program, *policy.Rule) {
	r := &policy.Rule{Name: "check-team", Stage: policy.StageValidate, Effect: policy.Effect{Action: policy.ActionPlan{Default: policy.Deny}}}
	return &policy.Program{Kind: "ClusterPolicy", Name: name, Settings: policy.Settings{Background: true}, Rules: []*policy.Rule{r}}, r
}

func outcome(p *policy.Program, r *policy.Rule, namespace string, status policy.Status) *policy.Outcome {
	req := &policy.Request{Review: policy.Review{Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: namespace}}
	return &policy.Outcome{Request: req, Results: []policy.Result{{Program: p, Rule: r, Yield: policy.Yield{Status: status}, Elapsed: 2 * time.Millisecond}}}
}

// page returns the content of /metrics.
func page(t testing.TB, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func contains(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, l := range lines {
		if !strings.Contains(text, l+"\n") {
			t.Errorf("there is no line\n%s\nin\n%s", l, text)
		}
	}
}

func TestNilDoesNothing(t *testing.T) {
	var m *Metrics
	p, r := program("require-labels")
	m.Evaluated(outcome(p, r, "default", policy.StatusPass))
	m.Reviewed(&policy.Request{}, "ValidatingWebhookConfiguration", true, time.Second)
	m.PolicyChanged(p, Created)
	m.Reconciled("x")
	m.Requeued("x", 1)
	m.Dropped("x")
	m.EventDropped()
	m.AuditDropped()
	m.Breaker("x", true)
	m.Certificates(nil)
	m.TrustRoots(nil)
	m.UpdateRequests(1)
	m.UpdateRequestFailed(1)
	m.UpdateRequestsWaiting(1)
	m.RulesWaiting(t.Context(), 1)
	m.LeftOut(t.Context(), 1, 1)
	m.Controller("x")
	m.Forget()
	m.Policies(nil)
	m.Configure(Config{})
	m.Run(t.Context())
	if next := http.NotFoundHandler(); m.HTTP(next) == nil {
		t.Error("no handler")
	}
}

// In a process with both controllers, the work that waits in one does not hide that of the other.
func TestBacklogOfBothControllers(t *testing.T) {
	m := NewMetrics(Options{})
	ctx, lose := context.WithCancel(t.Context())
	m.RulesWaiting(ctx, 2)
	m.UpdateRequestsWaiting(0) // as after each write before a request is answered
	contains(t, page(t, m), `ephor_updaterequest_backlog{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 2`)
	lose() // the lease: the next leader counts the rules
	contains(t, page(t, m), `ephor_updaterequest_backlog{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 0`)
}

// The policies whose webhooks are left out are reported while this replica leads.
func TestLeftOutPolicies(t *testing.T) {
	const name = "ephor_webhook_policies_left_out{"
	m := NewMetrics(Options{})
	if got := page(t, m); strings.Contains(got, name) {
		t.Errorf("a replica that never led reports a number:\n%s", got)
	}
	ctx, lose := context.WithCancel(t.Context())
	m.LeftOut(ctx, 1, 2)
	contains(t, page(t, m), name+`otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",scope="cluster"} 1`)
	contains(t, page(t, m), `scope="namespace"} 2`)
	lose()
	if got := page(t, m); strings.Contains(got, name) {
		t.Errorf("a replica that no longer leads reports a number:\n%s", got)
	}
}

// A Namespace is not in a namespace, although a request for it names one.
func TestResultsOfANamespace(t *testing.T) {
	m := NewMetrics(Options{})
	p, r := program("require-labels")
	out := outcome(p, r, "team-a", policy.StatusPass)
	out.Request.GVK = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	m.Evaluated(out)
	contains(t, page(t, m), `kyverno_policy_results_total{dry_run="false",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_background_mode="true",policy_name="require-labels",policy_namespace="-",policy_type="cluster",policy_validation_mode="enforce",resource_kind="Namespace",resource_namespace="",resource_request_operation="create",rule_execution_cause="admission_request",rule_name="check-team",rule_result="pass",rule_type="validate"} 1`)
}

// Another kind of that name is in a namespace, whichever of the two was counted first.
func TestResultsOfAnotherNamespaceKind(t *testing.T) {
	m := NewMetrics(Options{})
	p, r := program("require-labels")
	for _, group := range []string{"", "infra.example.com"} {
		out := outcome(p, r, "team-a", policy.StatusPass)
		out.Request.GVK = schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Namespace"}
		m.Evaluated(out)
	}
	for _, namespace := range []string{"", "team-a"} {
		contains(t, page(t, m), `resource_kind="Namespace",resource_namespace="`+namespace+`",resource_request_operation="create",rule_execution_cause="admission_request",rule_name="check-team",rule_result="pass",rule_type="validate"} 1`)
	}
}

func TestResults(t *testing.T) {
	m := NewMetrics(Options{Version: "v1"})
	p, r := program("require-labels")
	for range 3 {
		m.Evaluated(outcome(p, r, "default", policy.StatusFail))
	}
	const labels = `{dry_run="false",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_background_mode="true",policy_name="require-labels",policy_namespace="-",policy_type="cluster",policy_validation_mode="enforce",resource_kind="Pod",resource_namespace="default",resource_request_operation="create",rule_execution_cause="admission_request",rule_name="check-team",rule_result="fail",rule_type="validate"`
	contains(t, page(t, m),
		"# TYPE kyverno_policy_results_total counter", "kyverno_policy_results_total"+labels+"} 3",
		"# TYPE kyverno_policy_results counter", "kyverno_policy_results"+labels+"} 3",
		"# TYPE kyverno_policy_execution_duration_seconds histogram",
		"kyverno_policy_execution_duration_seconds_bucket"+labels+`,le="0.005"} 3`,
		"kyverno_policy_execution_duration_seconds_bucket"+labels+`,le="+Inf"} 3`,
		"kyverno_policy_execution_duration_seconds_count"+labels+"} 3",
		"kyverno_policy_execution_duration_seconds_sum"+labels+"} 0.006",
		`kyverno_info{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",version="v1"} 1`,
	)
}

// A policy of which one rule denies requests somewhere is counted as enforcing.
func TestModeOfAPolicy(t *testing.T) {
	rule := func(plan policy.ActionPlan) *policy.Rule {
		return &policy.Rule{Stage: policy.StageValidate, Effect: policy.Effect{Action: plan}}
	}
	audits := rule(policy.ActionPlan{Default: policy.Audit})
	overridden := rule(policy.ActionPlan{Default: policy.Audit, Overrides: []policy.ActionOverride{{Action: policy.Deny, Namespaces: []string{"prod-*"}}}})
	for want, rules := range map[string][][]*policy.Rule{
		audit: {{audits}}, enforce: {{audits, rule(policy.ActionPlan{Default: policy.Deny})}, {audits, overridden}},
	} {
		for _, r := range rules {
			if got := mode(&policy.Program{Rules: r}); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	}
}

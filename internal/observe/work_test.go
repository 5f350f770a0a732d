package observe

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// Background work is counted as on the recorded pages of Kyverno's background controller: with a cause of its own, with the operation of
// the trigger (none if the cause is a policy), and without a namespace for a Namespace.
func TestWork(t *testing.T) {
	m := NewMetrics(Options{})
	p, r := program("copy-secrets")
	out := outcome(p, r, "team-a", policy.StatusPass)
	out.Request.GVK, out.Request.Operation = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, policy.Update
	Work{m}.Evaluated(out)
	Work{m}.Evaluated(outcome(p, r, "team-a", policy.StatusPass))
	existing := outcome(p, r, "team-b", policy.StatusPass)
	existing.Request.Origin = policy.FromScan
	Work{m}.Evaluated(existing)
	const before = `kyverno_policy_results_total{dry_run="false",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_background_mode="true",policy_name="copy-secrets",policy_namespace="-",policy_type="cluster",policy_validation_mode="enforce",`
	const after = `rule_execution_cause="background_scan",rule_name="check-team",rule_result="pass",rule_type="validate"} 1`
	contains(t, page(t, m),
		before+`resource_kind="Namespace",resource_namespace="",resource_request_operation="update",`+after,
		before+`resource_kind="Pod",resource_namespace="team-a",resource_request_operation="create",`+after,
		before+`resource_kind="Pod",resource_namespace="team-b",resource_request_operation="",`+after)
	if out.Request.Origin != policy.FromAdmission || out.Request.Namespace != "team-a" {
		t.Error("the request was changed")
	}
	Work{}.Evaluated(out) // no metrics
}

package observe

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/policy"
)

func configured(t *testing.T, m *Metrics, data map[string]string) {
	t.Helper()
	c, diags := ParseConfig(data)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	m.Configure(c)
}

func TestConfigMistakes(t *testing.T) {
	for _, c := range []struct {
		key, value, want string // want is part of the only diagnostic
	}{
		{"namespaces", `[]`, "namespaces is not"},
		{"metricsRefreshInterval", "often", `"often" is not a duration`},
		{"metricsRefreshInterval", "-1h", `"-1h" is not a duration`},
		{"bucketBoundaries", "1, x", `"x" is not a number`},
		{"bucketBoundaries", "1, 1", "do not grow"},
		{"bucketBoundaries", "1, +Inf", "+Inf is no bound"},
		{"bucketBoundaries", "NaN", "NaN is no bound"},
		{"metricsExposure", `{`, "is not a map"},
		{"metricsExposure", `{"kyverno_policy_results": {"disabledLabelDimensions": ["rule"]}}`, "has no label rule"},
		{"metricsExposure", `{"kyverno_policy_results_total": {"enabled": false}}`, "the name without _total"},
		{"metricsExposure", `{"kyverno_results": {}}`, "there is no metric kyverno_results"},
		{"metricsExposure", `{"kyverno_http_requests_duration_seconds": {"bucketBoundaries": [2, 1]}}`, "do not grow"},
		{"metricsExposure", `{"kyverno_http_requests_duration_seconds": {"bucketBoundaries": [1, 1]}}`, "do not grow"},
	} {
		_, diags := ParseConfig(map[string]string{c.key: c.value})
		if len(diags) != 1 || !strings.Contains(diags[0].Summary, c.want) {
			t.Errorf("%s: %s: %v, want %s", c.key, c.value, diags, c.want)
		}
	}
}

// A change at run time resets only the instruments that it names.
func TestLiveChange(t *testing.T) {
	m := NewMetrics(Options{})
	p, r := program("require-labels")
	work := func() {
		m.Evaluated(outcome(p, r, "default", policy.StatusFail))
		m.Reviewed(outcome(p, r, "default", 1).Request, "ValidatingWebhookConfiguration", false, 40*time.Millisecond)
	}
	const reviews = `kyverno_admission_requests_total{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",request_allowed="false",request_webhook="ValidatingWebhookConfiguration",resource_kind="Pod",resource_namespace="default",resource_request_operation="create"}`
	work()
	contains(t, page(t, m), reviews+" 1")

	configured(t, m, map[string]string{"metricsExposure": `{
		"kyverno_policy_results": {"bareName": false, "disabledLabelDimensions": ["rule_name", "resource_kind", "policy_background_mode", "policy_type", "resource_namespace", "policy_namespace", "dry_run", "rule_execution_cause", "policy_validation_mode", "resource_request_operation"]},
		"kyverno_admission_review_duration_seconds": {"bucketBoundaries": [0.01, 0.1], "disabledLabelDimensions": ["resource_kind", "resource_namespace", "resource_request_operation", "request_allowed"]},
		"kyverno_info": {"enabled": false}}`})
	work()
	text := page(t, m)
	contains(t, text, reviews+" 2",
		`kyverno_policy_results_total{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",policy_name="require-labels",rule_result="fail",rule_type="validate"} 1`,
		`kyverno_admission_review_duration_seconds_bucket{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",request_webhook="ValidatingWebhookConfiguration",le="0.01"} 0`,
		`kyverno_admission_review_duration_seconds_bucket{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",request_webhook="ValidatingWebhookConfiguration",le="0.1"} 1`,
		`kyverno_admission_review_duration_seconds_bucket{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version="",request_webhook="ValidatingWebhookConfiguration",le="+Inf"} 1`,
	)
	for _, gone := range []string{"\nkyverno_info{", "\nkyverno_policy_results{"} {
		if strings.Contains(text, gone) {
			t.Errorf("%s is still there", gone)
		}
	}

	configured(t, m, nil) // the ConfigMap is deleted
	work()
	text = page(t, m)
	contains(t, text, reviews+" 3")
	for _, back := range []string{"\nkyverno_info{", "\nkyverno_policy_results{"} {
		if !strings.Contains(text, back) {
			t.Errorf("%s is not back", back)
		}
	}
}

// The keys are the names of Kyverno's instruments, some of which already end in _total.
func TestNamesOfInstruments(t *testing.T) {
	m := NewMetrics(Options{})
	for _, name := range []string{"kyverno_policy_rule_info_total", "kyverno_updaterequest_total", "kyverno_breaker_total", "kyverno_deprecated_api_requests_total", "kyverno_breaker_drops"} {
		configured(t, m, map[string]string{"metricsExposure": `{"` + name + `": {"enabled": false}}`})
		if f := m.families[name]; f == nil || !f.state.Load().off {
			t.Errorf("%s is still there", name)
		}
	}
}

// bucketBoundaries changes the buckets of all histograms of seconds, except those with bounds of their own.
func TestBuckets(t *testing.T) {
	m := NewMetrics(Options{})
	configured(t, m, map[string]string{"bucketBoundaries": "0.5,1"})
	fill(m, 1)
	families := parsePage(t, page(t, m))
	for name, want := range map[string]int{nameExecution: 3, nameReviewDuration: 3, nameHTTPDuration: 3, nameServerIn: 10, nameServerDuration: 15} {
		if got := len(families[name].Metric[0].Histogram.Bucket); got != want {
			t.Errorf("%s has %d buckets, want %d", name, got, want)
		}
	}
}

func TestNamespaces(t *testing.T) {
	c, _ := ParseConfig(map[string]string{"namespaces": `{"include": ["a", "b"], "exclude": ["b"]}`})
	for namespace, want := range map[string]bool{"a": true, "b": false, "c": false, "": true, "-": true} {
		if got := c.counts(namespace); got != want {
			t.Errorf("%q: %v", namespace, got)
		}
	}
	m := NewMetrics(Options{})
	m.Configure(c)
	in, out := &policy.Request{Review: policy.Review{Namespace: "a"}}, &policy.Request{Review: policy.Review{Namespace: "c"}}
	m.Reviewed(in, "ValidatingWebhookConfiguration", true, 0)
	m.Reviewed(out, "ValidatingWebhookConfiguration", true, 0)
	p, r := program("x")
	p.Namespace = "c" // results are filtered by the policy's namespace
	m.Evaluated(outcome(p, r, "a", policy.StatusPass))
	m.PolicyChanged(p, Created)
	m.Policies(func() []PolicyState { return []PolicyState{{p, true}} })
	for _, kind := range []string{"CleanupPolicy", "DeletingPolicy"} {
		deleting := &policy.Program{Kind: kind, Namespace: "c", Name: "x", Names: compile.Kinds.Named(kind).Names()}
		m.CleanupDeleted(deleting, "Pod", "c", "")
		m.CleanupFailed(deleting, "Pod", "c", "")
	}
	m.TTLDeleted(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "c")
	m.TTLFailed(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "c")
	families := parsePage(t, page(t, m))
	for _, name := range []string{nameCleanupDeleted, nameCleanupErrors, nameDeletingDeleted, nameDeletingErrors, nameTTLDeleted, nameTTLErrors} {
		if families[name+"_total"] == nil {
			t.Errorf("%s depends on the namespace", name)
		}
	}
	if n := len(families["kyverno_admission_requests_total"].GetMetric()); n != 1 {
		t.Errorf("%d series of requests", n)
	}
	for _, name := range []string{"kyverno_policy_results_total", "kyverno_policy_changes_total", nameRuleInfo} {
		if families[name] != nil {
			t.Errorf("%s is there", name)
		}
	}
}

// At the refresh interval, series of deleted objects disappear, and the series on which users alert are initialized again.
func TestForget(t *testing.T) {
	m := NewMetrics(Options{})
	p, r := program("x")
	m.Controller("webhook-controller")
	m.Evaluated(outcome(p, r, "default", policy.StatusPass))
	m.EventDropped()
	m.UpdateRequestFailed(3)
	m.forget()
	text := page(t, m)
	if strings.Contains(text, "\nkyverno_policy_results") {
		t.Error("results are still there")
	}
	contains(t, text, `kyverno_events_dropped_total{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 0`,
		`ephor_updaterequest_backlog{otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 3`,
		`kyverno_controller_requeue_total{controller_name="webhook-controller",num_requeues="1",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 0`,
		`kyverno_controller_reconcile_total{controller_name="webhook-controller",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 0`,
		`kyverno_controller_drop_total{controller_name="webhook-controller",otel_scope_name="kyverno",otel_scope_schema_url="",otel_scope_version=""} 0`)
}

package admission

import (
	"strings"
	"testing"
)

// A policy with CEL expressions is accepted with a warning for every field that the matched kind does not have, and
// refused when an expression does not compile.
func TestReviewOfExpressions(t *testing.T) {
	review := func(expression string) string {
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",` +
			`"kind":{"group":"kyverno.io","version":"v1","kind":"ClusterPolicy"},"resource":{"group":"kyverno.io","version":"v1","resource":"clusterpolicies"},` +
			`"userInfo":{},"object":{"apiVersion":"kyverno.io/v1","kind":"ClusterPolicy","metadata":{"name":"p"},"spec":{"rules":[{"name":"r",` +
			`"match":{"any":[{"resources":{"kinds":["ConfigMap"]}}]},"validate":{"cel":{"expressions":[{"expression":"` + expression + `"}]}}}]}}}}`
	}
	for _, c := range []struct {
		expression, warning, refusal string
	}{
		{"has(object.data)", "", ""},
		{"!has(object.automountServiceAccountToken)", "undefined field 'automountServiceAccountToken';", ""},
		{"object.data ==", "", "Syntax error"},
	} {
		srv, _ := setup(t, fakeCluster{}, nil)
		code, res := postReview(t, srv, "/policyvalidate", []byte(review(c.expression)))
		if code != 200 || res.Allowed != (c.refusal == "") {
			t.Errorf("%s: %d %+v", c.expression, code, res)
			continue
		}
		if c.refusal != "" && !strings.Contains(res.Result.Message, c.refusal) {
			t.Errorf("%s: refused with %q", c.expression, res.Result.Message)
		}
		if c.warning != "" != (len(res.Warnings) == 1) || c.warning != "" && !strings.Contains(res.Warnings[0], c.warning) {
			t.Errorf("%s: warnings %q", c.expression, res.Warnings)
		}
	}
}

// A rule with work that no controller executes is accepted with a warning.
func TestReviewOfDeferredWork(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	code, res := postReview(t, srv, "/policyvalidate", []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE",`+
		`"kind":{"group":"kyverno.io","version":"v1","kind":"ClusterPolicy"},"resource":{"group":"kyverno.io","version":"v1","resource":"clusterpolicies"},`+
		`"userInfo":{},"object":{"apiVersion":"kyverno.io/v1","kind":"ClusterPolicy","metadata":{"name":"p"},"spec":{"rules":[{"name":"r",`+
		`"match":{"any":[{"resources":{"kinds":["ConfigMap"]}}]},"generate":{"apiVersion":"v1","kind":"ConfigMap","name":"c","namespace":"{{request.object.metadata.name}}","data":{"data":{"a":"b"}}}}]}}}}`))
	want := "rule r: the generate work is recorded but not executed: there is no background controller"
	if code != 200 || !res.Allowed || len(res.Warnings) != 1 || res.Warnings[0] != want {
		t.Errorf("%d %+v", code, res)
	}
}

// A selector that matches no request is refused: a kind that exists only as the body of subresources, or a subresource that a built-in kind
// does not have.
func TestReviewOfSubresourceKinds(t *testing.T) {
	srv, _ := setup(t, fakeCluster{bodies: map[string][]string{"Scale": {"Deployment/scale", "StatefulSet/scale"}}}, nil)
	for _, c := range []struct{ kind, background, want string }{
		{"Scale", "true", "path: spec.rules[0].match.any[0].kinds: background scan enabled with subresource Scale\n  at spec.rules[0].match.any[0].resources.kinds\n  name the subresource: Deployment/scale, StatefulSet/scale"},
		{"Scale", "false", "no resource has the kind Scale, only subresources have\n  at spec.rules[0].match.any[0].resources.kinds\n  name the subresource: Deployment/scale, StatefulSet/scale"},
		{"Pod/scale", "true", "path: spec.rules[0].match.any[0].kinds: background scan enabled with subresource Pod/scale\n  at spec.rules[0].match.any[0].resources.kinds"},
		{"Pod/scale", "false", "Pod has no subresource scale\n  at spec.rules[0].match.any[0].resources.kinds"},
		{"Pod/status", "true", ""},
		{"Strange/scale", "true", ""},
		{"Strange", "true", ""},
	} {
		_, res := postReview(t, srv, "/policyvalidate", reviewOf(t, `{apiVersion: kyverno.io/v1, kind: ClusterPolicy, metadata: {name: p}, spec: {background: `+c.background+
			`, rules: [{name: r, match: {any: [{resources: {kinds: [`+c.kind+`]}}]}, validate: {message: m, deny: {}}}]}}`, "", "jane"))
		got := ""
		if !res.Allowed {
			got = res.Result.Message
		}
		if got != c.want {
			t.Errorf("%s, background %s: %q, want %q", c.kind, c.background, got, c.want)
		}
	}
}

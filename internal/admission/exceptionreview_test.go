package admission

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/policyreview"
)

func TestExceptionReview(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	const good = `{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e, namespace: ns}, spec: {
	  match: {any: [{resources: {kinds: [Pod]}}]}, exceptions: [{policyName: p, ruleNames: [r]}]}}`
	nameless := strings.Replace(good, "policyName: p", `policyName: ""`, 1)
	deleted := strings.Replace(nameless, "{name: e,", "{name: e, deletionTimestamp: '2026-01-01T00:00:00Z',", 1)
	controls := func(list string) string {
		return strings.Replace(good, "exceptions:", "podSecurity: "+list+", exceptions:", 1)
	}
	for _, c := range []struct {
		name, text string
		exceptions policyreview.Exceptions
		refusal    string
		warning    string
	}{
		{"disabled", good, policyreview.Exceptions{}, "", "PolicyException resources would not be processed until it is enabled."},
		{"no namespace", good, policyreview.Exceptions{Enabled: true}, "", "The exceptionNamespace flag is not set"},
		{"another namespace", good, policyreview.Exceptions{Enabled: true, Namespace: "other"}, "", "PolicyException resource namespace must match the defined namespace."},
		{"the namespace", good, policyreview.Exceptions{Enabled: true, Namespace: "ns"}, "", ""},
		{"all namespaces", good, policyreview.Exceptions{Enabled: true, Namespace: "*"}, "", ""},
		{"a mistake", nameless, policyreview.Exceptions{Enabled: true, Namespace: "*"}, "An exception requires a policy name\n  at spec.exceptions[0].policyName", ""},
		{"a control without images", controls("[{controlName: Capabilities}]"), policyreview.Exceptions{Enabled: true, Namespace: "*"}, `spec.podSecurity[0].controlName: Invalid value: "Capabilities": exclude.images must be specified for the container level control`, ""},
		{"a field without values", controls(`[{controlName: Seccomp}, {controlName: Seccomp, restrictedField: spec.x}]`), policyreview.Exceptions{Enabled: true, Namespace: "*"}, "spec.podSecurity[1].values: Required value: values is required", ""},
		{"values without a field", controls(`[{controlName: Seccomp, values: [a]}]`), policyreview.Exceptions{Enabled: true, Namespace: "*"}, "spec.podSecurity[0].restrictedField: Required value: restrictedField is required", ""},
		{"user info", strings.Replace(good, "{resources: {kinds: [Pod]}}", "{resources: {kinds: [Pod]}, roles: ['a:b']}", 1), policyreview.Exceptions{Enabled: true, Namespace: "*"}, "Usage of user info is forbidden\n  at spec.match.any[0]", ""},
		{"a mistake, while it is being deleted", deleted, policyreview.Exceptions{Enabled: true, Namespace: "*"}, "", ""},
		{"a caution", strings.Replace(good, "policyName: p", `policyName: "p*"`, 1), policyreview.Exceptions{Enabled: true, Namespace: "*"}, "", `the exception is for no policy: "p*" is taken literally`},
	} {
		srv.review.Exceptions = c.exceptions
		raw, err := yaml.YAMLToJSON([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		code, res := postReview(t, srv, "/exceptionvalidate", configMap("", func(r *admissionv1.AdmissionRequest) {
			r.Kind.Group, r.Kind.Kind, r.Resource.Group, r.Resource.Resource = "kyverno.io", "PolicyException", "kyverno.io", "policyexceptions"
			r.Namespace, r.Object.Raw = "ns", raw
			if c.text == deleted {
				r.Operation, r.OldObject.Raw = admissionv1.Update, raw
			}
		}))
		if code != 200 || res.Allowed != (c.refusal == "") || !res.Allowed && !strings.HasPrefix(res.Result.Message, c.refusal) {
			t.Errorf("%s: %d %+v", c.name, code, res)
		}
		if got := strings.Join(res.Warnings, "; "); got != c.warning {
			t.Errorf("%s: warnings %q, want %q", c.name, got, c.warning)
		}
	}
}

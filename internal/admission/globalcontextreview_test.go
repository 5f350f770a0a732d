package admission

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/yaml"
)

// GlobalContextEntries are reviewed in every served version.
func TestGlobalContextReview(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil)
	for _, c := range []struct{ name, meta, spec, refusal, warning string }{
		{"resources", "", `{kubernetesResource: {version: v1, resource: pods}}`, "", ""},
		{"resources that are not served", "", `{kubernetesResource: {group: x.io, version: v1, resource: xs}}`, "", "the entry has no data yet: the API server serves no xs"},
		{"a call", "", `{apiCall: {urlPath: /version}}`, "", ""},
		{"both", "", `{kubernetesResource: {version: v1, resource: pods}, apiCall: {urlPath: /version}}`, "A global context entry should either have KubernetesResource or APICall\n  at spec", ""},
		{"data of a GET", "", `{apiCall: {urlPath: /version, data: [{key: a, value: 1}]}}`, "An External API call with data should have method as POST\n  at spec.apiCall.method", ""},
		{"a projection", "", `{apiCall: {urlPath: /version}, projections: [{name: e, jmesPath: a}]}`, "A projection entry requires a name different from the global context entry name", ""},
		{"a mistake, while it is being deleted", ", deletionTimestamp: '2026-01-01T00:00:00Z'", `{}`, "", ""},
	} {
		for _, version := range []string{"v2", "v2beta1", "v2alpha1"} {
			raw, err := yaml.YAMLToJSON([]byte("{apiVersion: kyverno.io/" + version + ", kind: GlobalContextEntry, metadata: {name: e" + c.meta + "}, spec: " + c.spec + "}"))
			if err != nil {
				t.Fatal(err)
			}
			code, res := postReview(t, srv, "/globalcontextvalidate", configMap("", func(r *admissionv1.AdmissionRequest) {
				r.Kind.Group, r.Kind.Version, r.Kind.Kind = "kyverno.io", version, "GlobalContextEntry"
				r.Resource.Group, r.Resource.Version, r.Resource.Resource = "kyverno.io", version, "globalcontextentries"
				r.Object.Raw = raw
				if c.meta != "" {
					r.Operation, r.OldObject.Raw = admissionv1.Update, raw
				}
			}))
			if code != 200 || res.Allowed != (c.refusal == "") || !res.Allowed && !strings.HasPrefix(res.Result.Message, c.refusal) {
				t.Errorf("%s %s: %d %+v", version, c.name, code, res)
			}
			if got := strings.Join(res.Warnings, "; "); got != c.warning {
				t.Errorf("%s %s: warnings %q, want %q", version, c.name, got, c.warning)
			}
		}
	}
}

package admission

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

const imagePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: images}
spec:
  rules:
  - name: registry
    match: {any: [{resources: {kinds: [Pod]}}]}
    context: [{name: normalized, variable: {jmesPath: "image_normalize('nginx')"}}]
    validate:
      failureAction: Enforce
      message: "registry {{ images.containers.c.registry }}, {{ normalized }}"
      deny: {}
`

// Every setting takes effect with the next request: no setting is compiled into policies.
func TestSettingsAreLive(t *testing.T) {
	srv, _ := setup(t, fakeCluster{}, nil, imagePolicy, enforced("Fail"), strings.Replace(imagePolicy, "name: images", "name: images-2", 1))
	pod := configMap("", func(r *admissionv1.AdmissionRequest) {
		r.Kind.Kind, r.Resource.Resource = "Pod", "pods"
		r.Object.Raw = []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`)
	})
	for _, c := range []struct {
		config map[string]string
		want   string // part of the message; empty for allowed
	}{
		{nil, "registry docker.io, docker.io/nginx:latest"},
		{map[string]string{"defaultRegistry": "mirror.example.com"}, "registry mirror.example.com, mirror.example.com/nginx:latest"},
		{map[string]string{"enableDefaultRegistryMutation": "false"}, "registry , nginx:latest"},
		{map[string]string{"resourceFilters": "[Pod,shop,*]"}, ""},
		{map[string]string{"excludeUsernames": "someone"}, "registry docker.io"},
		{map[string]string{"excludeUsernames": "*"}, ""},
		{nil, "registry docker.io"},
	} {
		s, diags := settings.Parse(c.config)
		if len(diags) > 0 {
			t.Fatal(diags)
		}
		srv.settings.Set(s)
		code, res := postReview(t, srv, "/validate/fail", pod)
		if code != 200 || res.Allowed != (c.want == "") || c.want != "" && !strings.Contains(res.Result.Message, c.want) {
			t.Errorf("%v: %d %+v", c.config, code, res)
		}
	}
}

// maxContextSize bounds the data of context entries; 0 removes the bound, but not that of the rule's budget.
func TestMaxContextSize(t *testing.T) {
	for text, want := range map[string]int{"": 2 << 20, "1Ki": 1 << 10, "0": -1, "4Mi": 4 << 20} {
		config := map[string]string{}
		if text != "" {
			config["maxContextSize"] = text
		}
		s, diags := settings.Parse(config)
		if c := policy.ConfOf(s); len(diags) > 0 || c.MaxContextSize != want {
			t.Errorf("%q: %+v, %v", text, c, fmt.Sprint(diags))
		}
	}
}

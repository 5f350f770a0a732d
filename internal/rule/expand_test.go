package rule_test

import (
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
)

// TestT6Expand: the key expandData of the ConfigMap allows variables inside data for the cluster-wide policies that it names, but not
// for namespaced policies with the same name.
func TestT6Expand(t *testing.T) {
	r := compileRule(t, []byte(`
name: r
match: {any: [{resources: {kinds: ['*']}}]}
validate:
  message: "says {{ request.object.spec.x }}, {{ to_upper('{{ request.object.spec.x }}') }}"
  deny: {}
`), nil)
	parsed, diags := settings.Parse(map[string]string{"expandData": "other, old"})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, c := range []struct{ namespace, name, want string }{
		{"", "old", "says web, WEB"},
		{"", "new", "says {{ request.object.metadata.name }}, {{ REQUEST.OBJECT.METADATA.NAME }}"},
		{"ns", "old", "says {{ request.object.metadata.name }}, {{ REQUEST.OBJECT.METADATA.NAME }}"},
	} {
		req := request(map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "X", "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"x": "{{ request.object.metadata.name }}"}}})
		req.Conf = policy.ConfOf(parsed)
		s := call(req, r)
		s.Program = &policy.Program{Namespace: c.namespace, Name: c.name}
		if y := r.Eval(s); y.Message != c.want {
			t.Errorf("%s/%s: %s", c.namespace, c.name, y.Message)
		}
	}
}

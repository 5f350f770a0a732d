package policyreview

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// The review of a policy follows the version of the API server: a function of a newer one is refused with that version, and a rule whose requests
// no longer arrive causes a warning.
func TestServer(t *testing.T) {
	includes := map[string]any{
		"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": map[string]any{"name": "p"}, "spec": map[string]any{
			"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
				"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{"configmaps"},
			}}},
			"validations": []any{map[string]any{"expression": "object.metadata.name.includes('a')"}},
		},
	}
	for _, c := range []struct {
		server  kubeversion.Minor
		allowed bool
		text    string
	}{
		{36, false, "exist since Kubernetes 1.37; the API server has 1.36"}, {37, true, ""}, {0, true, ""},
	} {
		v := &Reviewer{Options: Options{Server: func() kubeversion.Minor { return c.server }}}
		got := v.Policy(t.Context(), &policy.Request{Review: policy.Review{Operation: policy.Create, Object: value.Of(includes)}})
		if got.Allowed != c.allowed || !strings.Contains(got.Message, c.text) {
			t.Errorf("%d: %+v", c.server, got)
		}
	}
}

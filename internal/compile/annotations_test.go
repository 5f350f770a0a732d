package compile_test

import (
	"testing"

	"ephor.invalid/ephor/internal/compile"
)

// Two annotations give policies in CEL what classic rules do: they are executed for requests only, or replace objects that they did not create.
func TestAnnotationsOfClassicRules(t *testing.T) {
	mutating := func(annotations map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": "policies.kyverno.io/v1", "kind": "MutatingPolicy", "metadata": map[string]any{"name": "p", "annotations": annotations},
			"spec": map[string]any{
				"evaluation":             map[string]any{"mutateExisting": map[string]any{"enabled": true}},
				"matchConstraints":       rulesFor("configmaps"),
				"targetMatchConstraints": map[string]any{"expression": "resource.list('v1', 'secrets', '')"},
				"mutations":              []any{map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": "[JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}]"}}},
			},
		}
	}
	for value, want := range map[string]bool{"": true, "true": true, "false": false} {
		p, diags := compile.One(compile.Object{Value: mutating(map[string]any{"ephor.dev/on-policy-update": value})})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if got := p.Rules[len(p.Rules)-1].OnPolicyChange; got != want {
			t.Errorf("on-policy-update %q: OnPolicyChange is %t", value, got)
		}
	}
	generating := func(kind, value string) map[string]any {
		metadata := map[string]any{"name": "p", "annotations": map[string]any{"ephor.dev/replace-existing": value}}
		expression := "generator.apply('a', [resource.get('v1', 'configmaps', 'a', 'b')])"
		if kind != "GeneratingPolicy" {
			metadata["namespace"], expression = "a", "generator.apply([resource.get('v1', 'configmaps', 'b')])"
		}
		return map[string]any{
			"apiVersion": "policies.kyverno.io/v1", "kind": kind, "metadata": metadata,
			"spec": map[string]any{"matchConstraints": rulesFor("configmaps"), "generate": []any{map[string]any{"expression": expression}}},
		}
	}
	for _, c := range []struct {
		kind, value string
		own         bool
	}{{"GeneratingPolicy", "", true}, {"GeneratingPolicy", "true", false}, {"NamespacedGeneratingPolicy", "true", true}} {
		p, diags := compile.One(compile.Object{Value: generating(c.kind, c.value)})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if got := p.Rules[0].Generation.Own; got != c.own {
			t.Errorf("%s, replace-existing %q: Own is %t", c.kind, c.value, got)
		}
	}
}

func rulesFor(resource string) map[string]any {
	return map[string]any{"resourceRules": []any{map[string]any{"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "operations": []any{"CREATE"}, "resources": []any{resource}}}}
}

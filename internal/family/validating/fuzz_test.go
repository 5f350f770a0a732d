package validating_test

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/validating"
)

// FuzzAutogen compiles policies for Pods with random expressions and controllers, and lists the generated policies: nothing panics, each
// generated rule has its status, and the policy itself is not changed.
func FuzzAutogen(f *testing.F) {
	f.Add("object.spec.containers.all(c, has(c.image))", "'object.spec'", "object.metadata.name != ''", "deployments")
	f.Add("variables.a", "object.metadata.namespace", "request.object.spec.x == oldObject.spec.x", "rollouts.v1alpha1.argoproj.io")
	f.Add("object.spec +", "", "true", "cronjobs")
	f.Fuzz(func(t *testing.T, validation, message, condition, controller string) {
		object := map[string]any{
			"apiVersion": "policies.kyverno.io/v1", "kind": "ValidatingPolicy", "metadata": map[string]any{"name": "p"},
			"spec": map[string]any{
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
					"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"pods"}, "operations": []any{"CREATE"},
				}}},
				"autogen":         map[string]any{"podControllers": map[string]any{"controllers": []any{controller, "daemonsets", controller}}},
				"matchConditions": []any{map[string]any{"name": "c", "expression": condition}},
				"variables":       []any{map[string]any{"name": "a", "expression": validation}},
				"validations":     []any{map[string]any{"expression": validation, "message": message, "messageExpression": message}},
			},
		}
		program := validating.Family.Compile(family.Source{Object: object})
		p, _ := validating.Decode(object)
		generated := validating.Autogen(p, object)
		if len(program.Rules) != len(generated)+1 {
			t.Errorf("%d rules, %d generated policies", len(program.Rules), len(generated))
		}
		for key, c := range generated {
			if len(c.Targets) == 0 || key != "extract" && strings.Contains(c.Spec.Validations[0].Expression, "object.spec.containers") {
				t.Errorf("%s: %+v", key, c)
			}
		}
		if p.Spec.Validations[0].Expression != validation {
			t.Error("the policy was changed")
		}
	})
}

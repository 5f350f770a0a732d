package imagevalidating_test

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/imagevalidating"
)

// FuzzAutogen compiles policies for Pods with random expressions, globs and controllers, and lists the generated policies: nothing panics,
// each generated policy has its targets and its rule, parts that do not refer to the Pod's fields stay unchanged, and the policy itself is
// not changed.
func FuzzAutogen(f *testing.F) {
	f.Add("images.containers.all(i, i.startsWith('ghcr.io/'))", "object.metadata.labels.a == 'b'", "ghcr.io/*", "ref == 'a'", "deployments")
	f.Add("object.spec.containers.size() > 0", "has(oldObject.spec)", "{a,b", "image(ref).tag() == 'v1'", "rollouts.v1alpha1.argoproj.io")
	f.Add("object.spec +", "true", "[", "", "cronjobs")
	f.Fuzz(func(t *testing.T, validation, condition, glob, reference, controller string) {
		object := map[string]any{
			"apiVersion": "policies.kyverno.io/v1", "kind": "ImageValidatingPolicy", "metadata": map[string]any{"name": "p"},
			"spec": map[string]any{
				"matchConstraints": map[string]any{"resourceRules": []any{map[string]any{
					"apiGroups": []any{""}, "apiVersions": []any{"v1"}, "resources": []any{"pods"}, "operations": []any{"CREATE"},
				}}},
				"autogen":              map[string]any{"podControllers": map[string]any{"controllers": []any{controller, "daemonsets"}}},
				"matchConditions":      []any{map[string]any{"name": "c", "expression": condition}},
				"matchImageReferences": []any{map[string]any{"glob": glob}, map[string]any{"expression": reference}},
				"variables":            []any{map[string]any{"name": "a", "expression": validation}},
				"images":               []any{map[string]any{"name": "more", "expression": validation}},
				"attestors":            []any{},
				"validations":          []any{map[string]any{"expression": validation, "message": condition}},
			},
		}
		program := imagevalidating.Family.Compile(family.Source{Object: object, Options: family.Options{CommandLine: true}})
		p, _ := imagevalidating.Decode(object)
		generated := imagevalidating.Autogen(p, object)
		if len(generated) == 0 || len(program.Rules) != len(generated)+1 {
			t.Errorf("%d rules, %d generated policies", len(program.Rules), len(generated))
		}
		for key, c := range generated {
			if len(c.Targets) == 0 || key != "extract" && strings.Contains(c.Spec.Validations[0].Expression, "object.spec.containers") {
				t.Errorf("%s: %+v", key, c)
			}
			if strings.Count(c.Spec.Validations[0].Expression, "images.") != strings.Count(validation, "images.") {
				t.Errorf("%s: %q became %q", key, validation, c.Spec.Validations[0].Expression)
			}
		}
		if p.Spec.Validations[0].Expression != validation {
			t.Error("the policy was changed")
		}
	})
}

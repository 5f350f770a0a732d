package generating_test

import (
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/policy"
)

// Without a request, the objects that were generated for an object that is no longer a trigger are deleted. If the policy depends on the
// requester, it is unknown whether the object is a trigger, and nothing is deleted.
func TestWithoutRequest(t *testing.T) {
	const manifest = `
apiVersion: policies.kyverno.io/v1
kind: GeneratingPolicy
metadata: {name: p}
spec:
  evaluation: {synchronize: {enabled: true}}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: c, expression: %q}]
  generate:
  - expression: "generator.apply('n', [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'made'}}])"
`
	for condition, want := range map[string]string{
		"object.metadata.name == 'o'":                        "[generate]",
		"object.metadata.name == 'another'":                  "[delete-downstream]",
		"request.?userInfo.?username.orValue('') == 'alice'": "[]",
		"object.nothing == 'x'":                              "[]",
	} {
		var tree map[string]any
		if err := yaml.Unmarshal([]byte(fmt.Sprintf(manifest, condition)), &tree); err != nil {
			t.Fatal(err)
		}
		program, diags := compile.One(compile.Object{Value: tree})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		req := familytest.Request(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "o", "namespace": "n"}})
		req.Origin = policy.FromScan
		out := engine.Eval(t.Context(), engine.Input{
			Selections: []policy.Selection{{Program: program, Rules: program.Rules}}, Request: req, Stages: policy.StageGenerate, Plan: true,
		})
		kinds := []string{}
		for _, w := range out.Work {
			kinds = append(kinds, fmt.Sprint(w.Kind))
		}
		if got := fmt.Sprint(kinds); got != want {
			t.Errorf("%s: the work is %s, want %s", condition, got, want)
		}
	}
}

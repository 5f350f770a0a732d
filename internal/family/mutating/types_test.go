package mutating_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
)

// applying returns a policy with an apply configuration.
func applying(t *testing.T) map[string]any {
	t.Helper()
	return golden.Objects(t, []byte(`
- apiVersion: policies.kyverno.io/v1
  kind: MutatingPolicy
  metadata: {name: p}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
    mutations:
    - patchType: ApplyConfiguration
      applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{a: 'b'}}}"}
`))[0]
}

// A policy is compiled while the types that its apply configuration needs are still being loaded. Its evaluation waits for them.
func TestTypesAreMadeLater(t *testing.T) {
	made := make(chan struct{})
	program, diags := compile.With(compile.Object{Value: applying(t)}, nil, family.Options{Types: func() managedfields.TypeConverter {
		<-made
		return managedfields.NewDeducedTypeConverter()
	}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	close(made)
	out := engine.Eval(t.Context(), engine.Input{
		Selections: familytest.Select(program), Stages: policy.StageMutate,
		Request: familytest.Request(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "ns"}}),
	})
	if len(out.Results) != 1 || out.Results[0].Status != policy.StatusPass {
		t.Fatalf("%+v", out.Results)
	}
	changed, err := out.Object.Map()
	if err != nil {
		t.Fatal(err)
	}
	labels, _ := changed["metadata"].(map[string]any)["labels"].(map[string]any)
	if labels["a"] != "b" {
		t.Errorf("%v", changed)
	}
}

// If types cannot be loaded, the rule that needs them ends in an error, and the process continues.
func TestTypesThatPanic(t *testing.T) {
	tried := make(chan struct{}, 2)
	program, diags := compile.With(compile.Object{Value: applying(t)}, nil, family.Options{Types: func() managedfields.TypeConverter {
		tried <- struct{}{}
		panic("no types")
	}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	<-tried // the types are loaded in the background
	out := engine.Eval(t.Context(), engine.Input{
		Selections: familytest.Select(program), Stages: policy.StageMutate,
		Request: familytest.Request(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "ns"}}),
	})
	if len(out.Results) != 1 || out.Results[0].Status != policy.StatusError {
		t.Fatalf("%+v", out.Results)
	}
}

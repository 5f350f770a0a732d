package generating_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/family/familytest"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// TestData runs testdata/*.txtar: policies.yaml, resources.yaml and exceptions.yaml are lists (see familytest.Request). want holds the diagnostics, the
// results of the policies for each resource in order, and the work that they request.
func TestData(t *testing.T) {
	golden.Run(t, "testdata/*.txtar", func(t *testing.T, in golden.Inputs) string {
		var b strings.Builder
		programs := familytest.Compile(&b, golden.Objects(t, in.Text("policies.yaml")))
		familytest.Except(&b, programs, golden.Objects(t, in.Text("exceptions.yaml")))
		for _, o := range golden.Objects(t, in.Text("resources.yaml")) {
			r := familytest.Request(o)
			out := engine.Eval(t.Context(), engine.Input{Selections: familytest.Select(programs...), Request: r, Stages: policy.StageGenerate, Plan: true})
			fmt.Fprintf(&b, "%s %s %s/%s\n", r.Operation, r.GVK.Kind, r.Namespace, r.Name)
			familytest.Lines(&b, &out)
			familytest.Work(&b, &out)
		}
		return b.String()
	})
}

// served is a cluster that serves no custom resources.
type served struct{}

func (served) Namespaced(_ context.Context, k world.Kind) (bool, error) {
	if k.APIVersion == "v1" {
		return true, nil
	}
	return false, &world.NoKindError{APIVersion: k.APIVersion, Kind: k.Kind}
}

// For an object of a kind that the cluster does not serve, the result is an error that names the kind and what to check.
func TestUnknownKind(t *testing.T) {
	policies := golden.Objects(t, []byte(`
- apiVersion: policies.kyverno.io/v1
  kind: GeneratingPolicy
  metadata: {name: p}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
    generate: [{expression: "generator.apply('ns', [{'apiVersion': 'example.com/v1', 'kind': 'Widget', 'metadata': {'name': 'w'}}])"}]
- apiVersion: policies.kyverno.io/v1
  kind: GeneratingPolicy
  metadata: {name: q}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
    generate: [{template: {value: "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: ns}\n"}}]
`))
	var b strings.Builder
	programs := familytest.Compile(&b, policies)
	out := engine.Eval(t.Context(), engine.Input{
		Selections: familytest.Select(programs...), Stages: policy.StageGenerate, Plan: true,
		Request: familytest.Request(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "ns"}}),
		Root:    world.RootFunc(func(world.Reach) world.World { return world.World{Kinds: world.Kinds{Namespaced: served{}.Namespaced}} }),
	})
	const want = `failed to evaluate policy: failed to generate resources: no matches for kind "Widget" in version "example.com/v1": ` +
		"check apiVersion and kind, and that the definition of a custom resource is installed"
	if len(out.Results) != 2 {
		t.Fatalf("%s%+v", b.String(), out.Results)
	}
	for _, r := range out.Results {
		if r.Status != policy.StatusError || r.Message != want {
			t.Errorf("%s: %v %s\nwant %s", r.Program.Key(), r.Status, r.Message, want)
		}
	}
}

package mutating_test

import (
	"testing"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/familytest"
)

// A policy is handed over to the API server only if it requests that and its status confirms it. A status alone does not disable a policy,
// and the command line and changes of existing resources ignore it.
func TestHandedOver(t *testing.T) {
	const text = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: a}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"}}]
`
	configMap := familytest.Request(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "default"}})
	for _, c := range []struct {
		name       string
		asks       bool
		generated  any
		options    family.Options
		handedOver bool
	}{
		{"asks, and the status confirms it", true, true, family.Options{}, true},
		{"asks, not generated", true, false, family.Options{}, false},
		{"asks, no status", true, nil, family.Options{}, false},
		{"asks, a status of another type", true, "true", family.Options{}, false},
		{"does not ask, the status claims it", false, true, family.Options{}, false},
		{"on the command line", true, true, family.Options{CommandLine: true}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err)
			}
			object["spec"].(map[string]any)["autogen"] = map[string]any{"mutatingAdmissionPolicy": map[string]any{"enabled": c.asks}}
			if c.generated != nil {
				object["status"] = map[string]any{"generated": c.generated}
			}
			p, diags := compile.With(compile.Object{Value: object}, nil, c.options)
			if diags.HasErrors() {
				t.Fatal(diags)
			}
			matches, err := p.Rules[0].Match(t.Context(), configMap)
			if err != nil {
				t.Fatal(err)
			}
			if p.HandedOver != c.handedOver || matches == c.handedOver || len(p.Webhooks) == 0 != c.handedOver {
				t.Errorf("handed over: %v, evaluated: %v, webhooks: %d; want handed over: %v", p.HandedOver, matches, len(p.Webhooks), c.handedOver)
			}
		})
	}
}

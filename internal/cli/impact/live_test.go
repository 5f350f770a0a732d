package impact

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// What a policy says about existing objects does not depend on policies that change them, or that fail to.
func TestApart(t *testing.T) {
	var programs []*policy.Program
	for _, text := range []string{`
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: fails}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {data: {a: "{{ request.object.data.missing }}"}}}
`, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: changes}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {team: x}}}}
`, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: team}
spec:
  rules:
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Enforce, message: a team is needed, pattern: {metadata: {labels: {team: "?*"}}}}
`} {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		p, diags := compile.One(compile.Object{Value: object})
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		programs = append(programs, p)
	}
	var replicas []*impact.Replica
	for _, group := range apart(programs) {
		replicas = append(replicas, impact.NewReplica(group, impact.Options{}))
	}
	object := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "shop"}, "data": map[string]any{}}
	records := make([]impact.Record, atOnce+1)
	for i := range records {
		records[i] = impact.Record{At: "shop/ConfigMap/a", Object: &policy.Request{Review: policy.Review{
			Operation: policy.Create, GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, RequestGVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, GVR: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
			Namespace: "shop", Name: "a", Object: value.Of(object),
		}}}
	}
	got := map[string]int{}
	err := each(context.Background(), slices.Values(records), replicas, func(e *impact.Evaluated) {
		if e.Err != nil {
			t.Fatal(e.Err)
		}
		for _, r := range e.After.Results {
			got[r.Program.Name+" "+r.Status.String()]++
		}
	})
	if err != nil || got["team fail"] != atOnce+1 || got["fails error"] != atOnce+1 || got["changes pass"] != atOnce+1 {
		t.Errorf("%v, %v", got, err)
	}
}

package rule_test

import (
	"context"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// The other elements that fail are named only where that needs no lookups, wherever the entry that looks up is defined.
func TestFailingElementsNeedNoLookups(t *testing.T) {
	for name, text := range map[string]string{
		"an entry of the rule": `
name: r
match: {any: [{resources: {kinds: [Pod]}}]}
context:
- {name: found, configMap: {name: "{{ element.name }}", namespace: d}}
validate:
  foreach:
  - list: request.object.spec.containers
    deny: {conditions: {all: [{key: "{{ found.data.k }}", operator: Equals, value: v}]}}`,
		"an entry of the loop": `
name: r
match: {any: [{resources: {kinds: [Pod]}}]}
validate:
  foreach:
  - list: request.object.spec.containers
    context:
    - {name: found, configMap: {name: "{{ element.name }}", namespace: d}}
    deny: {conditions: {all: [{key: "{{ found.data.k }}", operator: Equals, value: v}]}}`,
	} {
		r := compileRule(t, []byte(text), nil)
		containers := []any{map[string]any{"name": "a"}, map[string]any{"name": "b"}, map[string]any{"name": "c"}}
		s := call(request(map[string]any{"object": map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": containers}}}), r)
		asked := 0
		s.Env.World = world.World{Objects: func(context.Context, world.ObjectRequest) (map[string]any, error) {
			asked++
			return map[string]any{"data": map[string]any{"k": "v"}}, nil
		}}
		if y := r.Eval(s); y.Status != policy.StatusFail || asked != 1 || len(y.Properties) > 0 {
			t.Errorf("%s: %s %s, %d lookups, %v", name, y.Status, y.Message, asked, y.Properties)
		}
	}
}

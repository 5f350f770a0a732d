package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/source"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/fixed"
)

const (
	manyElements  = 1000
	foreachTarget = 1100 // times the cost of one element
	foreachPairs  = 5
)

// loops are rules with a foreach over the containers of a Pod.
var loops = []struct{ name, rule string }{
	{"validate pattern", `
validate:
  foreach:
  - list: request.object.spec.containers
    pattern: {image: "registry.example.com/*", =(securityContext): {=(privileged): "false"}}
`},
	{"validate deny", `
validate:
  foreach:
  - list: request.object.spec.containers
    deny: {conditions: {any: [{key: "{{ element.securityContext.privileged || 'no' }}", operator: Equals, value: true}]}}
`},
	{"mutate patchesJson6902", `
mutate:
  foreach:
  - list: request.object.spec.containers
    patchesJson6902: |
      - {op: add, path: "/spec/containers/{{ elementIndex }}/stdin", value: true}
`},
	{"mutate patchStrategicMerge", `
mutate:
  foreach:
  - list: request.object.spec.containers
    patchStrategicMerge: {spec: {containers: [{(name): "{{ element.name }}", stdin: true}]}}
`},
}

// foreach measures the cost of a loop over many elements, relative to a loop over one: it must not grow faster than the list.
func (b *bench) foreach() error {
	worst := 0.0
	for _, l := range loops {
		one, err := newLoop(l.rule, 1)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		many, err := newLoop(l.rule, manyElements)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		var ratios []float64
		for range foreachPairs { // alternately, so that a busy machine slows both equally
			ratios = append(ratios, float64(many.cost(10))/float64(one.cost(10*manyElements)))
		}
		slices.Sort(ratios)
		ratio := ratios[len(ratios)/2]
		worst = max(worst, ratio)
		fmt.Printf("foreach, %s: %d elements cost %.0f times one\n", l.name, manyElements, ratio)
	}
	b.row("foreach-1000", "x", worst, foreachTarget)
	fmt.Printf("foreach ratio: %.0f; target %d\n", worst, foreachTarget)
	return nil
}

// loop is a rule with a Pod to evaluate.
type loop struct {
	snapshot *catalog.Snapshot
	pod      source.Object
	root     world.Root
}

func newLoop(rule string, containers int) (*loop, error) {
	var body object
	if err := yaml.Unmarshal([]byte(rule), &body); err != nil {
		return nil, err
	}
	body["name"] = "loop"
	body["match"] = object{"any": []any{object{"resources": object{"kinds": []any{"Pod"}}}}}
	program, diags := compile.One(compile.Object{Value: object{
		"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": object{"name": "loop"},
		"spec": object{"rules": []any{body}},
	}})
	if diags.HasErrors() {
		return nil, fmt.Errorf("%s", diags[0])
	}
	list := make([]any, containers)
	for i := range list {
		list[i] = load.Container(fmt.Sprintf("c%04d", i), object{"privileged": false})
	}
	l := &loop{snapshot: catalog.NewStatic([]*policy.Program{program}), root: fixed.New(fixed.Values{}), pod: source.Object{Value: object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "p"}, "spec": object{"containers": list},
	}}}
	if got := l.run(); len(got) != 1 || got[0].Status != policy.StatusPass {
		return nil, fmt.Errorf("%d elements: the rule does not pass: %v", containers, got)
	}
	return l, nil
}

func (l *loop) run() []policy.Result {
	const stages = policy.StageMutate | policy.StageValidate
	request := podRequest(l.pod)
	return engine.Eval(context.Background(), engine.Input{
		Selections: l.snapshot.For(request, catalog.Route{Stages: stages}), Request: request, Stages: stages, Root: l.root,
	}).Results
}

// cost returns the CPU time of one run, garbage collection included.
func (l *loop) cost(times int) time.Duration {
	start := ownCPU()
	for range times {
		l.run()
	}
	return max((ownCPU()-start)/time.Duration(times), 1)
}

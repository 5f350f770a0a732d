package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// action is one step of a schedule: something that a user does, or a fault.
type action struct {
	at   time.Duration
	what string
	n, m int // which object, which replica, how long
}

func (a action) String() string { return fmt.Sprintf("%-6s %s %d %d", a.at, a.what, a.n, a.m) }

// plan is what one seed does. The same seed always has the same plan.
type plan struct {
	seed     uint64
	replicas map[string]int
	policies []string
	actions  []action
	// many is the number of triggers that exist from the start, so that lists have several pages, whose tokens expire at once.
	many int
	// skews are how far the clocks of replicas are ahead of that of the API server, by Pod.
	skews map[string]time.Duration
}

func (p *plan) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d: replicas %v, policies %v, clocks ahead %v\n", p.seed, p.replicas, p.policies, p.skews)
	for _, a := range p.actions {
		fmt.Fprintln(&out, " ", a)
	}
	return out.String()
}

// stage is a set of controllers and policies, with what users do about them.
type stage struct {
	replicas map[string]int // the largest number of each
	policies []string
	does     []string
	faults   []string // that only this stage has
	many     int
}

var stages = []stage{
	{map[string]int{"admission": 2, "background": 3}, []string{"copy"}, []string{"trigger", "trigger", "trigger", "untrigger", "relabel", "tamper", "discard", "discard-slowly", "policy", "unpolicy", "large"}, []string{"denyrecord", "behind", "behind"}, 0},
	{map[string]int{"admission": 2, "background": 2}, []string{"append"}, []string{"appender", "appender", "log", "unappender"}, []string{"denytarget", "conflicts"}, 0},
	{map[string]int{"admission": 1, "background": 2}, []string{"clone"}, []string{"source", "namespace", "namespace", "unnamespace", "discard-clone"}, nil, 0},
	{map[string]int{"reports": 3}, []string{"labelled"}, []string{"labelled", "labelled", "unlabelled", "label", "report", "policy-labelled", "namespace", "unnamespace"}, nil, 0},
	{map[string]int{"reports": 2}, []string{"labelled", "everything"}, []string{"labelled", "unlabelled", "definition", "undefinition", "widget", "widget", "group"}, []string{"nodiscovery"}, 0},
	{map[string]int{"cleanup": 2}, []string{"sweep"}, []string{"swept", "swept", "expiring", "expiring", "labelled"}, nil, 0},
	{map[string]int{"admission": 3}, []string{"labelled", "copy", "append"}, []string{"policy", "unpolicy", "webhook", "webhook", "policy-labelled", "definition", "undefinition"}, []string{"noleases", "noleases"}, 0},
	{map[string]int{"admission": 1, "background": 2}, []string{"copy"}, []string{"trigger", "policy", "unpolicy"}, nil, 600},
	{map[string]int{"reports": 2}, []string{"labelled"}, []string{"labelled", "label", "policy-labelled"}, nil, 300},
}

type faultOf struct {
	what string
	most int
}

// faults are what goes wrong, with the largest duration in seconds.
var faults = []faultOf{
	{"crash", 0}, {"crash", 0}, {"stop", 0}, {"hold", 60}, {"cut", 40}, {"apiserver", 15}, {"frozen", 40}, {"throttle", 30}, {"errors", 30}, {"lost", 30}, {"slow", 40},
	{"compact", 0}, {"compact", 0}, {"cutwatches", 90}, {"forbid", 40}, {"nodiscovery", 60}, {"hangdiscovery", 60}, {"conflicts", 20}, {"pages", 90},
}

// later are stages that a fifth of the seeds have. They, and what more adds to a plan, came later: the numbers of the seeds in
// docs/contributing/simulation.md stay as they are.
var later = []stage{
	{map[string]int{"admission": 2, "background": 2}, []string{"widget-copy"}, []string{"definition", "definition", "undefinition", "widget", "widget", "widget", "unwidget", "group"}, nil, 0},
	{map[string]int{"admission": 1, "reports": 2}, []string{"flagged"}, []string{"labelled", "labelled", "unlabelled", "flag", "flag", "unflag", "report"}, nil, 0},
	{map[string]int{"admission": 2, "background": 3}, []string{"append"}, []string{"appender", "appender", "appender", "log"}, []string{"lost", "lost", "denyrequests", "conflicts"}, 0},
}

// stageOf returns the stage of a seed.
func stageOf(seed uint64) stage {
	if n := uint64(len(stages)); seed/n%5 != 3 {
		return stages[seed%n]
	}
	return later[seed%uint64(len(later))]
}

// moreFaults are further faults; moreActions are those of users, by policy.
var (
	moreFaults  = []faultOf{{"verb", 60}, {"verb", 60}, {"stale", 90}, {"steal", 0}, {"lost", 30}, {"crash", 0}}
	moreActions = map[string][]string{"clone": {"unnamespace-slowly"}, "labelled": {"unnamespace-slowly"}, "append": {"appender", "appender"}, "copy": {"trigger"}}
	// skews are how far a clock may be ahead.
	skews = []time.Duration{0, 3 * time.Second, 90 * time.Second, 5 * time.Minute, -3 * time.Second, -90 * time.Second, -5 * time.Minute}
)

// more adds further actions, faults and clocks that are wrong.
func (p *plan) more() {
	r := rand.New(rand.NewPCG(p.seed, 35))
	at := func() time.Duration { return time.Duration(r.IntN(120_000)) * time.Millisecond }
	for range r.IntN(3) {
		if actions := moreActions[p.policies[0]]; len(actions) > 0 {
			p.actions = append(p.actions, action{at(), actions[r.IntN(len(actions))], r.IntN(6), r.IntN(3)})
		}
	}
	for range r.IntN(3) {
		f := moreFaults[r.IntN(len(moreFaults))]
		a := action{at(), f.what, r.IntN(1000), 0}
		if f.most > 0 {
			a.m = 1 + r.IntN(f.most)
		}
		p.actions = append(p.actions, a)
	}
	if r.IntN(3) > 0 {
		return
	}
	p.skews = map[string]time.Duration{}
	for _, name := range []string{"admission", "background", "reports", "cleanup"} {
		for i := range p.replicas[name] {
			p.skews[fmt.Sprint(name, "-", i)] = skews[r.IntN(len(skews))]
		}
	}
}

// planOf returns the plan of a seed.
func planOf(seed uint64) *plan {
	r := rand.New(rand.NewPCG(seed, 34))
	s := stageOf(seed)
	p := &plan{seed: seed, replicas: map[string]int{}, policies: s.policies}
	for _, name := range []string{"admission", "background", "reports", "cleanup"} {
		if most := s.replicas[name]; most > 0 {
			p.replicas[name] = 1 + r.IntN(most)
		}
	}
	at := func() time.Duration { return time.Duration(r.IntN(120_000)) * time.Millisecond }
	for range 8 + r.IntN(16) {
		p.actions = append(p.actions, action{at(), s.does[r.IntN(len(s.does))], r.IntN(6), r.IntN(3)})
	}
	// Few plans have many objects, since they take long.
	if p.many = s.many; p.many > 0 && seed/uint64(len(stages))%4 != 0 {
		p.many = 30
	}
	all := faults
	for _, what := range s.faults {
		all = append(slices.Clone(all), faultOf{what, 60}, faultOf{what, 60})
	}
	for range r.IntN(6) {
		f := all[r.IntN(len(all))]
		a := action{at(), f.what, r.IntN(1000), 0}
		if f.most > 0 {
			a.m = 1 + r.IntN(f.most)
		}
		p.actions = append(p.actions, a)
	}
	p.more()
	slices.SortStableFunc(p.actions, func(a, b action) int { return int(a.at - b.at) })
	return p
}

// without returns the plan without some of its actions.
func (p *plan) without(from, to int) *plan {
	q := *p
	q.actions = append(slices.Clone(p.actions[:from]), p.actions[to:]...)
	return &q
}

// policies are the policies of the stages.
var policies = map[string]string{
	"copy": `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: copy}
spec:
  generateExisting: true
  rules:
  - name: copy
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {kind: trigger}}}}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      name: "made-{{request.object.metadata.name}}"
      namespace: "{{request.object.metadata.namespace}}"
      data: {data: {v: "{{request.object.data.v}}"}}
`,
	"append": `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: append}
spec:
  rules:
  - name: append
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {kind: appender}}, operations: [CREATE, UPDATE]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, namespace: "{{request.namespace}}", selector: {matchLabels: {kind: log}}}]
      patchStrategicMerge: {data: {log: "{{target.data.log}}{{request.object.metadata.name}}:{{request.object.data.v}},"}}
  - name: created
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {kind: appender}}, operations: [CREATE]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, namespace: "{{request.namespace}}", name: created}]
      patchStrategicMerge: {data: {log: "{{target.data.log}}{{request.object.metadata.name}}:{{request.object.data.v}},"}}
`,
	"clone": `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: clone}
spec:
  generateExisting: true
  rules:
  - name: clone
    match: {any: [{resources: {kinds: [Namespace], selector: {matchLabels: {clone: "yes"}}}}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      name: cloned
      namespace: "{{request.object.metadata.name}}"
      clone: {namespace: a, name: source}
`,
	"labelled": `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: labelled}
spec:
  background: true
  rules:
  - name: labelled
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    validate: {failureAction: Audit, message: a team, pattern: {metadata: {labels: {team: "?*"}}}}
`,
	"everything": `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: everything}
spec:
  background: true
  rules:
  - name: named
    match: {any: [{resources: {kinds: ["*"], selector: {matchLabels: {widget: "yes"}}}}]}
    validate: {failureAction: Audit, message: a size, pattern: {spec: {size: ">0"}}}
`,
	"widget-copy": `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: widget-copy}
spec:
  generateExisting: true
  rules:
  - name: copy
    match: {any: [{resources: {kinds: [example.com/v1/Widget]}}]}
    generate:
      synchronize: true
      apiVersion: v1
      kind: ConfigMap
      name: "made-{{request.object.metadata.name}}"
      namespace: "{{request.object.metadata.namespace}}"
      data: {data: {v: "{{request.object.spec.v}}"}}
`,
	"flagged": `
apiVersion: kyverno.io/v2
kind: GlobalContextEntry
metadata: {name: flags}
spec:
  kubernetesResource: {version: v1, resource: configmaps, namespace: c}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: flagged}
spec:
  background: true
  rules:
  - name: flagged
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [a]}}]}
    context: [{name: flags, globalReference: {name: flags}}]
    validate:
      failureAction: Audit
      message: there is a flag
      deny: {conditions: {any: [{key: "{{ length(flags[?metadata.name=='flag']) }}", operator: GreaterThan, value: 0}]}}
`,
	"sweep": `
apiVersion: kyverno.io/v2
kind: ClusterCleanupPolicy
metadata: {name: sweep}
spec:
  schedule: "* * * * *"
  match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {kind: swept}}}}]}
`,
}

// definition is a custom kind that comes and goes.
const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true}]
`

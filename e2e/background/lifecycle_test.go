package background

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"ephor.invalid/ephor/e2e/suite"
)

// The namespaces of triggers and sources, and of generated objects.
const (
	triggers = "life"
	downs    = "life-made"
)

// mode is a way to generate. Each mode generates one object with the key k for a trigger with the key v; %s is the name of the row.
type mode struct {
	name     string
	generate string
	made     string // name of the generated object
	copies   bool   // k comes from the source; otherwise from the policy and the trigger
	applied  bool   // by server-side apply
}

const (
	dataPattern  = `apiVersion: v1, kind: ConfigMap, name: "%[1]s-made", namespace: life-made, data: {data: {k: "p1-{{request.object.data.v}}"}}`
	clonePattern = `apiVersion: v1, kind: ConfigMap, name: "%[1]s-made", namespace: life-made, clone: {namespace: life, name: "%[1]s-source"}`
)

var modes = []mode{
	{name: "data", generate: dataPattern, made: "%s-made"},
	{name: "clone", generate: clonePattern, made: "%s-made", copies: true},
	{name: "clonelist", generate: `namespace: life-made, cloneList: {namespace: life, kinds: [v1/ConfigMap], selector: {matchLabels: {source: "%[1]s"}}}`, made: "%s-source", copies: true},
	{name: "foreach", generate: `foreach: [{list: "['x', 'y']", ` + strings.Replace(dataPattern, "-made\"", "-{{element}}\"", 1) + `}]`, made: "%s-x"},
	{name: "foreachclone", generate: `foreach: [{list: "['x', 'y']", ` + strings.Replace(clonePattern, "-made\"", "-{{element}}\"", 1) + `}]`, made: "%s-x", copies: true},
	{name: "dataapply", generate: dataPattern, made: "%s-made", applied: true},
	{name: "cloneapply", generate: clonePattern, made: "%s-made", copies: true, applied: true},
}

// event is one row of the table: an event, and the expected object afterwards, with and without synchronize.
type event struct {
	name string
	only func(mode) bool // the modes to which the event applies; nil for all
	// sync and once are the expected value of k with and without synchronize; gone for no object, first for the initial value.
	sync, once string
	onlySync   bool
	orphan     bool // orphanDownstreamOnPolicyDelete
	late       bool // the event creates the trigger, and the source after it
	do         func(t *testing.T, r *row)
	edit       func(policy string) string // the changed policy; "" deletes it
	then       func(policy string) string // a second change, after the first is noticed
	also       func(t *testing.T, r *row) // further checks
}

// first stands for the initial value of the object.
const first = "(first)"

func data(m mode) bool   { return !m.copies }
func copies(m mode) bool { return m.copies }

var events = []event{
	{name: "trigger-created", sync: first, once: first},
	{name: "trigger-updated", only: data, sync: "p1-2", once: first, do: func(t *testing.T, r *row) {
		change(t, triggers, r.name, func(o *corev1.ConfigMap) { o.Data["v"] = "2" })
	}},
	{name: "trigger-deleted", sync: gone, once: first, do: func(t *testing.T, r *row) { remove(t, triggers, r.name) }},
	{name: "trigger-relabelled", sync: gone, once: first, do: func(t *testing.T, r *row) {
		change(t, triggers, r.name, func(o *corev1.ConfigMap) { delete(o.Labels, "row") })
	}},
	{name: "trigger-precondition", sync: gone, once: first, do: func(t *testing.T, r *row) {
		change(t, triggers, r.name, func(o *corev1.ConfigMap) { o.Labels["off"] = "yes" })
	}},
	{name: "downstream-updated", sync: first, once: "mine", do: func(t *testing.T, r *row) {
		change(t, downs, r.made(), func(o *corev1.ConfigMap) { o.Data["k"] = "mine" })
	}},
	{name: "downstream-field-added", sync: first, once: first, do: func(t *testing.T, r *row) {
		change(t, downs, r.made(), func(o *corev1.ConfigMap) { o.Data["more"], o.Labels["theirs"] = "x", "yes" })
	}, also: func(t *testing.T, r *row) {
		want := map[bool]string{true: "", false: "x"}[r.sync && !r.mode.applied]
		if got := state(t, downs, r.made(), "more"); got != want {
			t.Errorf("what was added is %q, want %q", got, want)
		}
	}},
	{name: "downstream-deleted", sync: first, once: gone, do: func(t *testing.T, r *row) { remove(t, downs, r.made()) }},
	{name: "source-updated", only: copies, sync: "s2", once: first, do: func(t *testing.T, r *row) {
		change(t, triggers, r.name+"-source", func(o *corev1.ConfigMap) { o.Data["k"] = "s2" })
	}},
	{name: "source-deleted", only: copies, sync: gone, once: first, do: func(t *testing.T, r *row) { remove(t, triggers, r.name+"-source") }},
	{name: "source-created-later", only: func(m mode) bool { return m.copies && m.name != "clonelist" }, sync: "s1", once: "s1", late: true, do: func(t *testing.T, r *row) {
		r.createTrigger(t)
		failing(t, r.name, "source resource v1/ConfigMap/"+downs+"/"+r.made()+" not found")
		r.createSource(t)
	}},
	{name: "data-updated", only: data, sync: "p2-1", once: first, edit: replacing("k: \"p1-", "k: \"p2-")},
	{name: "target-renamed", only: func(m mode) bool { return m.name == "data" || m.name == "clone" }, sync: first, once: first, edit: replacing("-made\"", "-renamed\""), also: func(t *testing.T, r *row) {
		// The controller no longer manages the object. Synchronized data are generated again, copies by the next event of the trigger.
		label := cluster.Must(t, "", "get", "configmap", r.made(), "-n", downs, "-o", `jsonpath={.metadata.labels.generate\.kyverno\.io/policy-name}`)
		renamed := state(t, downs, r.name+"-renamed", "k")
		if want := map[bool]string{true: "p1-1", false: gone}[r.sync && !r.mode.copies]; label != "" || renamed != want {
			t.Errorf("label %q; under the new name %q, want %q", label, renamed, want)
		}
	}},
	{name: "selector-changed", only: func(m mode) bool { return m.name == "clonelist" }, sync: first, once: first, edit: replacing("matchLabels: {source:", "matchLabels: {own: label, source:"), also: func(t *testing.T, r *row) {
		if label := cluster.Must(t, "", "get", "configmap", r.made(), "-n", downs, "-o", `jsonpath={.metadata.labels.generate\.kyverno\.io/policy-name}`); label != "" {
			t.Errorf("it is still labelled as made by %s", label)
		}
	}},
	{name: "rule-deleted", only: data, sync: gone, once: first, edit: withoutRule},
	{name: "rule-of-copies-deleted", only: copies, sync: first, once: first, edit: withoutRule},
	{name: "rule-deleted-orphan", sync: first, once: first, orphan: true, edit: withoutRule},
	{name: "policy-deleted", sync: gone, once: first, edit: nothing},
	{name: "policy-deleted-orphan", sync: first, once: first, orphan: true, edit: nothing},
	{name: "unsynchronized-rule-deleted", onlySync: true, sync: first, edit: replacing("synchronize: true", "synchronize: false"), then: withoutRule},
}

// row is one cell of the table: an event for one mode, with or without synchronize. It has its own policy, trigger and source.
type row struct {
	name   string
	mode   mode
	event  event
	sync   bool
	policy string
}

func (r *row) made() string { return fmt.Sprintf(r.mode.made, r.name) }

// first returns the initial value of k.
func (r *row) first() string {
	switch {
	case r.event.late:
		return gone
	case r.mode.copies:
		return "s1"
	}
	return "p1-1"
}

func (r *row) want() string {
	want := r.event.once
	if r.sync {
		want = r.event.sync
	}
	if want == first {
		return r.first()
	}
	return want
}

func (r *row) createTrigger(t *testing.T) {
	create(t, configMap(triggers, r.name, map[string]string{"row": r.name}, map[string]string{"v": "1"}))
}

func (r *row) createSource(t *testing.T) {
	create(t, configMap(triggers, r.name+"-source", map[string]string{"source": r.name, "own": "label"}, map[string]string{"k": "s1"}))
}

// replacing returns a change that replaces a text of the policy.
func replacing(old, new string) func(string) string {
	return func(policy string) string { return strings.ReplaceAll(policy, old, new) }
}

// withoutRule returns the policy with only its other rule.
func withoutRule(policy string) string { return policy[:strings.Index(policy, "  - name: r\n")] }

// nothing returns no policy.
func nothing(string) string { return "" }

// edited applies the change of each row that has one in a single kubectl call, because each call takes longer than its requests.
func edited(t *testing.T, table []*row, of func(*event) func(string) string) {
	t.Helper()
	var manifests strings.Builder
	remove := []string{"delete", "clusterpolicy", "--wait=false"}
	for _, r := range table {
		edit := of(&r.event)
		if edit == nil {
			continue
		}
		before := r.policy
		if r.policy = edit(before); r.policy == before {
			t.Fatalf("the edit of %s changes nothing", r.name)
		}
		if r.policy == "" {
			remove = append(remove, r.name)
		} else {
			manifests.WriteString(r.policy)
		}
	}
	cluster.Must(t, manifests.String(), "apply", "-f", "-")
	if len(remove) > 3 {
		cluster.Must(t, "", remove...)
	}
}

// unsynchronized waits until the background controller has noticed that the rules no longer synchronize.
func unsynchronized(t *testing.T, table []*row) {
	t.Helper()
	suite.Until(t, "the rules are known not to synchronize", func() error {
		noted := cluster.Must(t, "", "get", "configmap", "ephor-generate-rules", "-n", suite.Namespace, "-o", "jsonpath={.data.rules}")
		for _, r := range table {
			if r.event.then != nil && strings.Contains(noted, `"policy":"`+r.name+`","rule":"r","synchronize":true`) {
				return fmt.Errorf("%s is noted as synchronizing", r.name)
			}
		}
		return nil
	})
}

const rowPolicy = `---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: %[1]s}
spec:
  useServerSideApply: %[4]t
  rules:
  - name: other
    match: {any: [{resources: {kinds: [Secret], names: [never]}}]}
    validate: {message: never, pattern: {metadata: {name: never}}}
  - name: r
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [life], selector: {matchLabels: {row: %[1]s}}}}]}
    preconditions: {all: [{key: "{{ request.object.metadata.labels.off || 'no' }}", operator: Equals, value: "no"}]}
    generate: {synchronize: %[2]t, orphanDownstreamOnPolicyDelete: %[3]t, %[5]s}
`

// rows returns the whole table.
func rows() []*row {
	var out []*row
	for _, e := range events {
		for _, m := range modes {
			for _, sync := range []bool{true, false} {
				if e.only != nil && !e.only(m) || e.onlySync && !sync || m.applied && !sync {
					continue
				}
				r := &row{mode: m, event: e, sync: sync, name: e.name + "-" + m.name + map[bool]string{true: "-sync", false: "-once"}[sync]}
				r.policy = fmt.Sprintf(rowPolicy, r.name, sync, e.orphan, m.applied, fmt.Sprintf(m.generate, r.name))
				out = append(out, r)
			}
		}
	}
	return out
}

// TestLifecycle checks generated objects after their trigger, their source, their rule, their policy or they themselves are created, changed
// or deleted. Each row is a test. All rows proceed together, so the table takes as long as its slowest row.
func TestLifecycle(t *testing.T) {
	start(t)
	namespaces(t, triggers, downs)
	table := rows()
	var policies strings.Builder
	for _, r := range table {
		policies.WriteString(r.policy)
		if r.mode.copies && !r.event.late {
			r.createSource(t)
		}
	}
	apply(t, policies.String())
	for _, r := range table {
		if !r.event.late {
			r.createTrigger(t)
		}
	}
	for _, r := range table {
		if !r.event.late {
			has(t, downs, r.made(), "k", r.first())
		}
	}
	for _, r := range table {
		if r.event.do != nil {
			r.event.do(t, r)
		}
	}
	edited(t, table, func(e *event) func(string) string { return e.edit })
	unsynchronized(t, table)
	edited(t, table, func(e *event) func(string) string { return e.then })
	var left []string
	for _, r := range table {
		if r.policy == "" {
			left = append(left, r.name)
		}
	}
	settled(t, left...)
	drained(t)
	for _, r := range table {
		t.Run(r.name, func(t *testing.T) {
			has(t, downs, r.made(), "k", r.want())
			if r.event.also != nil {
				r.event.also(t, r)
			}
		})
	}
	drained(t)
	for _, r := range table { // late changes would be visible now
		if got := state(t, downs, r.made(), "k"); got != r.want() {
			t.Errorf("%s: in the end k is %q, want %q", r.name, got, r.want())
		}
	}
}

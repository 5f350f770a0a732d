package background

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/e2e/suite"
)

// mutation is a way to select and change targets. The trigger is named t, has the data v: "1", and is in the namespace mutate, with the
// targets a (label side: left), b (label side: right) and c (label side: right, data skip: "yes").
type mutation struct {
	name  string
	match string // further conditions for the trigger
	body  string // the mutate block
	// want is the expected value of `by` in a, b and c; - for none.
	want string
	// onDelete: the deletion of the trigger starts the work.
	onDelete bool
	// existing: the trigger exists before the policy.
	existing bool
}

const byTrigger = `patchStrategicMerge: {data: {by: "{{request.object.data.v}}"}}`

var changes = []mutation{
	{name: "name", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: a}], ` + byTrigger, want: "1 - -"},
	{name: "two-targets", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %[1]s, name: a}, {apiVersion: v1, kind: ConfigMap, namespace: %[1]s, name: b}], ` + byTrigger, want: "1 1 -"},
	{name: "wildcard", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: "?"}], ` + strings.Replace(byTrigger, "{data:", `{metadata: {labels: {+(kept): "yes"}}, data:`, 1), want: "1 1 1"},
	{name: "variables", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: "{{request.namespace}}", name: "{{request.object.data.next}}"}], ` + byTrigger, want: "- 1 -"},
	{name: "selector", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, selector: {matchLabels: {side: right}}}], ` + byTrigger, want: "- 1 1"},
	{name: "selector-variable", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, selector: {matchLabels: {side: "{{request.object.data.side}}"}}}], ` + byTrigger, want: "1 - -"},
	{name: "preconditions", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, selector: {matchLabels: {side: right}}, preconditions: {all: [{key: "{{target.data.skip || 'no'}}", operator: Equals, value: "no"}]}}], ` + byTrigger, want: "- 1 -"},
	{name: "context", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, selector: {matchLabels: {side: right}}, context: [{name: who, variable: {jmesPath: target.metadata.name}}]}], patchStrategicMerge: {data: {by: "{{who}}-{{request.object.data.v}}"}}`, want: "- b-1 c-1"},
	{name: "json-patch", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: a}], patchesJson6902: "- {op: add, path: /data/by, value: '{{request.object.data.v}}'}"`, want: "1 - -"},
	{name: "foreach", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: a}], foreach: [{list: "target.data.list | split(@, ',')", patchesJson6902: "- {op: add, path: /data/by, value: '{{element}}'}"}]`, want: "y - -"},
	{name: "deleted", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: a}], ` + byTrigger, match: "operations: [DELETE], ", want: "1 - -", onDelete: true},
	{name: "not-deleted", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: a}], patchStrategicMerge: {data: {by: "{{request.operation}}"}}`, want: "CREATE - -", onDelete: true},
	{name: "existing", body: `mutateExistingOnPolicyUpdate: true, targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: a}], ` + byTrigger, want: "1 - -", existing: true},
	{name: "not-existing", body: `targets: [{apiVersion: v1, kind: ConfigMap, namespace: %s, name: a}], ` + byTrigger, want: "- - -", existing: true},
}

func (c *mutation) policy() string {
	ns := "mutate-" + c.name
	body := c.body
	if strings.Contains(body, "%") {
		body = fmt.Sprintf(body, ns)
	}
	return fmt.Sprintf(`---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: %[1]s}
spec:
  rules:
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap], %[2]snamespaces: [%[1]s], names: [t]}}]}
    mutate: {%[3]s}
`, ns, c.match, body)
}

// Mutate rules with targets change the expected objects. Each row is a test.
func TestMutateExisting(t *testing.T) {
	start(t)
	var policies strings.Builder
	trigger := func(c *mutation) {
		create(t, configMap("mutate-"+c.name, "t", nil, map[string]string{"v": "1", "next": "b", "side": "left"}))
	}
	for i := range changes {
		c := &changes[i]
		policies.WriteString(c.policy())
		ns := "mutate-" + c.name
		namespaces(t, ns)
		create(t, configMap(ns, "a", map[string]string{"side": "left"}, map[string]string{"list": "x,y"}))
		create(t, configMap(ns, "b", map[string]string{"side": "right"}, nil))
		create(t, configMap(ns, "c", map[string]string{"side": "right"}, map[string]string{"skip": "yes"}))
		if c.existing {
			trigger(c)
		}
	}
	apply(t, policies.String())
	for i := range changes {
		if !changes[i].existing {
			trigger(&changes[i])
		}
	}
	drained(t)
	for i := range changes {
		if changes[i].onDelete {
			remove(t, "mutate-"+changes[i].name, "t")
		}
	}
	for i := range changes {
		c := &changes[i]
		t.Run(c.name, func(t *testing.T) {
			suite.Eventually(t, func() error {
				var got []string
				for _, name := range []string{"a", "b", "c"} {
					v := state(t, "mutate-"+c.name, name, "by")
					if v == "" {
						v = "-"
					}
					got = append(got, v)
				}
				if s := strings.Join(got, " "); s != c.want {
					return fmt.Errorf("%s, want %s", s, c.want)
				}
				return nil
			})
		})
	}
	drained(t)
}

const repeating = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: repeating}
spec:
  rules:
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [repeating], names: [t]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: ConfigMap, namespace: repeating, name: a}]
      patchStrategicMerge: {data: {by: "{{request.object.data.v}}"}}
`

// A target without a change is not written. A target that cannot be changed is reported.
func TestMutateExistingWritesChangesOnly(t *testing.T) {
	start(t)
	success := func(value string) {
		cluster.Must(t, "", "patch", "configmap", "kyverno", "-n", suite.Namespace, "--type=merge", "-p", `{"data":{"generateSuccessEvents":`+value+`}}`)
	}
	t.Cleanup(func() { success("null") })
	success(`"true"`)
	namespaces(t, "repeating")
	apply(t, repeating)
	create(t, configMap("repeating", "a", nil, nil))
	create(t, configMap("repeating", "t", nil, map[string]string{"v": "1"}))
	has(t, "repeating", "a", "by", "1")
	awaitEvent(t, "PolicyApplied", "kyverno-mutate resource mutated")
	drained(t)
	version := func() string {
		return cluster.Must(t, "", "get", "configmap", "a", "-n", "repeating", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	before := version()
	change(t, "repeating", "t", func(o *corev1.ConfigMap) { o.Data["more"] = "x" })
	drained(t)
	if got := version(); got != before {
		t.Errorf("a was written once more: %s, then %s", before, got)
	}

	yes := true
	if _, err := cluster.Client.CoreV1().ConfigMaps("repeating").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "fixed"}, Immutable: &yes, Data: map[string]string{"k": "v"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policy := strings.NewReplacer("name: a}", "name: fixed}", "name: change", "name: refused").Replace(repeating)
	cluster.Must(t, policy, "apply", "-f", "-")
	suite.Eventually(t, func() error {
		change(t, "repeating", "t", func(o *corev1.ConfigMap) { o.Data["more"] += "x" })
		for _, u := range requests(t) {
			if strings.Contains(u.Status.Message, "update v1/ConfigMap/repeating/fixed: ") {
				return nil
			}
		}
		return fmt.Errorf("no UpdateRequest says that the target may not be changed")
	})
	awaitEvent(t, "PolicyError", "kyverno-mutate policy repeating/refused error: update v1/ConfigMap/repeating/fixed: ")
}

const scaled = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: scaled}
spec:
  rules:
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [scaled], names: [t]}}]}
    mutate:
      targets: [{apiVersion: apps/v1, kind: Deployment/scale, namespace: scaled, name: web}]
      patchStrategicMerge: {spec: {replicas: 3}}
`

// The subresource scale can be a target, although its kind is not that of its object.
func TestMutateExistingScale(t *testing.T) {
	start(t)
	namespaces(t, "scaled")
	cluster.Must(t, "", "create", "deployment", "web", "-n", "scaled", "--image=web:1", "--replicas=0")
	apply(t, scaled)
	create(t, configMap("scaled", "t", nil, nil))
	suite.Eventually(t, func() error {
		if got := cluster.Must(t, "", "get", "deployment", "web", "-n", "scaled", "-o", "jsonpath={.spec.replicas}"); got != "3" {
			return fmt.Errorf("%s replicas, want 3", got)
		}
		return nil
	})
	drained(t)
}

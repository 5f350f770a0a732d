package background

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"ephor.invalid/ephor/e2e/suite"
)

// ownTriggers copies ConfigMaps to the namespace that their annotation names: one by its name, and all with a label.
const ownTriggers = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: own-triggers}
spec:
  rules:
  - name: one
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [own], names: [one], annotations: {copy-to: "?*"}}}]}
    generate:
      {synchronize: true, apiVersion: v1, kind: ConfigMap, name: one, namespace: '{{ request.object.metadata.annotations."copy-to" }}', clone: {namespace: own, name: one}}
  - name: listed
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [own], names: [listed], annotations: {copy-to: "?*"}}}]}
    generate:
      {synchronize: true, namespace: '{{ request.object.metadata.annotations."copy-to" }}', cloneList: {namespace: own, kinds: [v1/ConfigMap], selector: {matchLabels: {listed: "yes"}}}}
`

// A source that is its own trigger: its copies follow its changes, and go with it.
func TestSourceIsTrigger(t *testing.T) {
	start(t)
	namespaces(t, "own", "own-made")
	apply(t, ownTriggers)
	for _, name := range []string{"one", "listed"} {
		source := configMap("own", name, map[string]string{"listed": "yes"}, map[string]string{"k": "1"})
		if name == "one" {
			source.Labels = nil
		}
		source.Annotations = map[string]string{"copy-to": "own-made"}
		create(t, source)
	}
	for _, name := range []string{"one", "listed"} {
		has(t, "own-made", name, "k", "1")
		change(t, "own", name, func(o *corev1.ConfigMap) { o.Data["k"] = "2" })
		has(t, "own-made", name, "k", "2")
		remove(t, "own", name)
		has(t, "own-made", name, "k", gone)
	}
	drained(t)
}

// fan copies one source for each trigger, and for the first trigger once more.
const fan = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: fan}
spec:
  rules:
  - name: each
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [fan], names: ["t-*"]}}]}
    generate: {generateExisting: %t, synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}", namespace: fan-made, clone: {namespace: fan, name: source}}
`

const fanOther = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: fan-other}
spec:
  rules:
  - name: first
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [fan], names: [t-1]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: other, namespace: fan-made, clone: {namespace: fan, name: source}}
`

// One source has a copy for each of several triggers, and copies of two policies for one trigger: all follow it, also after a policy is
// deleted and created again.
func TestCopiesOfOneSource(t *testing.T) {
	start(t)
	namespaces(t, "fan", "fan-made")
	create(t, configMap("fan", "source", nil, map[string]string{"k": "1"}))
	first := fmt.Sprintf(fan, false)
	apply(t, first)
	apply(t, fanOther)
	for _, trigger := range []string{"t-1", "t-2"} {
		create(t, configMap("fan", trigger, nil, nil))
	}
	follow := func(want string) {
		t.Helper()
		for _, name := range []string{"t-1", "t-2", "other"} {
			has(t, "fan-made", name, "k", want)
		}
	}
	update := func(to string) {
		t.Helper()
		change(t, "fan", "source", func(o *corev1.ConfigMap) { o.Data["k"] = to })
	}
	follow("1")
	update("2")
	follow("2")

	cluster.Must(t, first, "delete", "-f", "-")
	settled(t, "fan")
	has(t, "fan-made", "t-1", "k", gone)
	update("3")
	has(t, "fan-made", "other", "k", "3")
	apply(t, fmt.Sprintf(fan, true))
	follow("3")
	update("4")
	follow("4")
	drained(t)
}

const chainPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: chain}
spec:
  rules:
  - name: second
    skipBackgroundRequests: true
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [chain], names: [first]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: second, namespace: chain, data: {data: {k: "{{ request.object.data.k }}"}}}
  - name: third
    skipBackgroundRequests: false
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [chain], names: [second]}}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: third, namespace: chain, data: {data: {k: "{{ request.object.data.k }}"}}}
  - name: restart
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [chain], names: [second]}}]}
    preconditions: {all: [{key: "{{ request.operation }}", operator: Equals, value: UPDATE}]}
    mutate:
      targets: [{apiVersion: apps/v1, kind: Deployment, namespace: chain, name: web}]
      patchStrategicMerge: {spec: {template: {metadata: {annotations: {restarted-for: "{{ request.object.data.k }}"}}}}}
`

// A generated object is the trigger of further rules: one generates another object, and one restarts a Deployment when a client changes it.
func TestGeneratedObjectIsTrigger(t *testing.T) {
	start(t)
	namespaces(t, "chain")
	cluster.Must(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: chain}, spec: {replicas: 0, selector: {matchLabels: {app: web}},
template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}}`, "create", "-f", "-")
	apply(t, chainPolicy)
	create(t, configMap("chain", "first", nil, map[string]string{"k": "1"}))
	has(t, "chain", "second", "k", "1")
	has(t, "chain", "third", "k", "1")
	change(t, "chain", "second", func(o *corev1.ConfigMap) { o.Data["k"] = "mine" })
	suite.Until(t, "the Deployment is restarted", func() error {
		got := cluster.Must(t, "", "get", "deployment", "web", "-n", "chain", "-o", "jsonpath={.spec.template.metadata.annotations.restarted-for}")
		if got != "mine" && got != "1" { // 1: the object is restored, which is a change too
			return fmt.Errorf("its annotation is %q", got)
		}
		return nil
	})
	has(t, "chain", "second", "k", "1")
	drained(t)
}

const elementsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: elements}
spec:
  rules:
  - name: isolate
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [elements], names: [t]}}]}
    generate:
      {synchronize: true, apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, name: made, namespace: elements, data: {spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}}
`

// An element that is removed from a list in a rule is removed from the generated objects.
func TestElementRemoved(t *testing.T) {
	start(t)
	namespaces(t, "elements")
	apply(t, elementsPolicy)
	create(t, configMap("elements", "t", nil, nil))
	types := func(want string) {
		t.Helper()
		suite.Until(t, "the NetworkPolicy has the types "+want, func() error {
			got, err := cluster.Try(t, "", "get", "networkpolicy", "made", "-n", "elements", "-o", "jsonpath={.spec.policyTypes[*]}")
			if err == nil && got != want {
				err = fmt.Errorf("they are %q", got)
			}
			return err
		})
	}
	types("Ingress Egress")
	cluster.Must(t, strings.Replace(elementsPolicy, "[Ingress, Egress]", "[Ingress]", 1), "apply", "-f", "-")
	types("Ingress")
	drained(t)
}

const ownersPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: owners}
spec:
  background: false
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [owners], names: ["t-*"]}}]}
    exclude: {any: [{clusterRoles: [owners-admin]}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.userInfo.username}}-a", namespace: owners, data: {data: {k: "{{request.userInfo.username}}"}}}
  - name: again
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [owners], names: ["t-*"]}}]}
    exclude: {any: [{clusterRoles: [owners-admin]}]}
    generate: {synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.userInfo.username}}-b", namespace: owners, data: {data: {k: "{{request.userInfo.username}}"}}}
`

const ownersRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[2]s}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [create, get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[2]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[1]s}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[2]s}
`

// Objects are generated for the requester of a trigger, unless a role of the requester is excluded, and no work is left when the trigger and
// the objects are deleted.
func TestRequesterAndDeletedTrigger(t *testing.T) {
	start(t)
	namespaces(t, "owners")
	rights := fmt.Sprintf(ownersRights, "ann", "owners-user") + "---" + fmt.Sprintf(ownersRights, "bob", "owners-admin")
	cluster.Apply(t, rights)
	apply(t, ownersPolicy)
	for _, user := range []string{"bob", "ann"} {
		cluster.Must(t, "", "create", "configmap", "t-"+user, "-n", "owners", "--as", user)
	}
	for _, name := range []string{"ann-a", "ann-b"} {
		has(t, "owners", name, "k", "ann")
	}
	drained(t)
	if got := state(t, "owners", "bob-a", "k"); got != gone {
		t.Errorf("an object was made for a requester with an excluded role: %s", got)
	}
	remove(t, "owners", "t-ann")
	for _, name := range []string{"ann-a", "ann-b"} {
		has(t, "owners", name, "k", gone)
	}
	remove(t, "owners", "t-bob")
	drained(t)
	if got := cluster.Must(t, "", "get", "configmaps", "-n", "owners", "-l", "generate.kyverno.io/policy-name", "-o", "name"); got != "" {
		t.Errorf("there are %s", got)
	}
}

const existingNamespacedPolicy = `
apiVersion: kyverno.io/v1
kind: Policy
metadata: {name: existing-of-one, namespace: existing-in}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], selector: {matchLabels: {sync: "yes"}}}}]}
    generate: {generateExisting: true, synchronize: true, apiVersion: v1, kind: ConfigMap, name: "{{request.object.metadata.name}}-made", namespace: existing-in, data: {data: {k: v}}}
`

// A namespaced policy generates for existing triggers of its own namespace only, also where the policy as a whole asks for existing ones.
func TestExistingOfNamespacedPolicy(t *testing.T) {
	start(t)
	namespaces(t, "existing-in", "existing-out")
	create(t, configMap("existing-in", "in", map[string]string{"sync": "yes"}, nil))
	create(t, configMap("existing-out", "out", map[string]string{"sync": "yes"}, nil))
	older := strings.Replace(existingNamespacedPolicy, "generateExisting: true, ", "", 1)
	older = strings.Replace(older, "spec:\n", "spec:\n  generateExisting: true\n", 1)
	for _, policy := range []string{existingNamespacedPolicy, older} {
		cluster.Must(t, policy, "create", "-f", "-")
		ready(t)
		has(t, "existing-in", "in-made", "k", "v")
		drained(t)
		if got := state(t, "existing-in", "out-made", "k"); got != gone {
			t.Errorf("the object of another namespace was a trigger: %s", got)
		}
		cluster.Must(t, policy, "delete", "-f", "-")
		has(t, "existing-in", "in-made", "k", gone)
	}
}

const nodePolicies = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: node-status-requests}
spec:
  background: false
  rules:
  - name: dongles
    match: {any: [{resources: {kinds: [Node/status], names: [chains-node]}}]}
    mutate: {patchesJson6902: "- {op: add, path: /status/capacity/example.com~1dongle, value: '4'}"}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: node-status-existing}
spec:
  background: false
  rules:
  - name: keys
    match: {any: [{resources: {kinds: [Node], names: [chains-node]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: Node/status, name: chains-node}]
      patchStrategicMerge: {status: {capacity: {example.com/key: "41"}}}
`

// The status of a Node is changed in requests for it, and as a target when the Node changes, once the filters of the ConfigMap let Nodes through.
func TestNodeStatus(t *testing.T) {
	filters := func(to string) {
		t.Helper()
		cluster.Must(t, "", "patch", "configmap", "kyverno", "-n", suite.Namespace, "--type=merge", "-p", fmt.Sprintf(`{"data":{"resourceFilters":%q}}`, to))
	}
	before := cluster.Must(t, "", "get", "configmap", "kyverno", "-n", suite.Namespace, "-o", "jsonpath={.data.resourceFilters}")
	without := strings.NewReplacer("[Node,*,*]", "", "[Node/?*,*,*]", "").Replace(before)
	if without == before {
		t.Fatalf("the filters have no Nodes: %s", before)
	}
	filters(without)
	t.Cleanup(func() { filters(before) })
	start(t)
	apply(t, nodePolicies)
	cluster.Apply(t, "{apiVersion: v1, kind: Node, metadata: {name: chains-node}}")
	capacity := func(key, want string) error {
		got := cluster.Must(t, "", "get", "node", "chains-node", "-o", `jsonpath={.status.capacity.example\.com/`+key+`}`)
		if got != want {
			return fmt.Errorf("the node has %q of %s, want %q", got, key, want)
		}
		return nil
	}
	suite.Until(t, "a request for the status is changed", func() error {
		if _, err := cluster.Try(t, "", "patch", "node", "chains-node", "--subresource=status", "--type=merge", "-p", `{"status":{"capacity":{"cpu":"1"}}}`); err != nil {
			return err
		}
		return capacity("dongle", "4")
	})
	suite.Until(t, "the status is changed as a target", func() error {
		cluster.Must(t, "", "label", "node", "chains-node", "a=b", "--overwrite")
		return capacity("key", "41")
	})
	drained(t)
}

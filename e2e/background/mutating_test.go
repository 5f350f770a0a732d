package background

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const mutatingPolicies = `
# The targets are listed by constraints.
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: mx-listed}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mx}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: trigger, expression: "object.metadata.name == 'listed'"}]
  targetMatchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mx-targets}}
    objectSelector: {matchLabels: {listed: "yes"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
  targetMatchConditions: [{name: open, expression: "object.?data.closed.orValue('') == ''"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{data: {'by': 'listed', 'name': string(object.metadata.name)}}"}
---
# The targets are what an expression gives for the trigger, as the API server has them.
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: mx-evaluated}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: mx}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE, DELETE], resources: [configmaps], resourceNames: [evaluated]}]
  targetMatchConstraints:
    expression: "resource.get('v1', 'configmaps', 'mx-targets', string(object.data.target))"
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/by', value: 'evaluated ' + string(request.operation)}]"}
`

// A MutatingPolicy with mutateExisting changes the resources that its target constraints or its expression select, for a request and for a
// change of the policy.
func TestMutatingPolicyExisting(t *testing.T) {
	start(t)
	namespaces(t, "mx", "mx-targets")
	listed := map[string]string{"listed": "yes"}
	create(t, configMap("mx-targets", "one", listed, map[string]string{"k": "v"}))
	create(t, configMap("mx-targets", "closed", listed, map[string]string{"closed": "yes"}))
	create(t, configMap("mx-targets", "other", nil, map[string]string{"k": "v"}))
	create(t, configMap("mx", "same", listed, map[string]string{"k": "v"}))
	celApply(t, "mutatingpolicies", mutatingPolicies)
	has(t, "mx-targets", "one", "by", "listed") // the policy is new
	has(t, "mx-targets", "one", "name", "one")
	create(t, configMap("mx-targets", "two", listed, map[string]string{"k": "v"}))
	create(t, configMap("mx", "listed", nil, nil))
	has(t, "mx-targets", "two", "by", "listed")

	create(t, configMap("mx", "evaluated", nil, map[string]string{"target": "other"}))
	has(t, "mx-targets", "other", "by", "evaluated CREATE")
	change(t, "mx", "evaluated", func(o *corev1.ConfigMap) { o.Data["more"] = "x" })
	has(t, "mx-targets", "other", "by", "evaluated UPDATE")
	remove(t, "mx", "evaluated")
	has(t, "mx-targets", "other", "by", "evaluated DELETE")
	create(t, configMap("mx", "stranger", nil, map[string]string{"target": "closed"}))
	drained(t)
	if got := state(t, "mx-targets", "closed", "by") + state(t, "mx", "same", "by"); got != "" {
		t.Errorf("what is no target was changed: %q", got)
	}
	if got := state(t, "mx-targets", "other", "k"); got != "v" {
		t.Errorf("the target lost its data: k is %q", got)
	}
}

const namespacedMutating = `
apiVersion: policies.kyverno.io/v1
kind: NamespacedMutatingPolicy
metadata: {name: tenant, namespace: mxn}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  matchConditions: [{name: trigger, expression: "object.metadata.name == 't'"}]
  targetMatchConstraints:
    objectSelector: {matchLabels: {listed: "yes"}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: ["*"], resources: [configmaps]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/by', value: 'tenant'}, JSONPatch{op: 'replace', path: '/metadata/namespace', value: 'mxn-other'}]"}
`

// A NamespacedMutatingPolicy changes resources of its own namespace only, even if its patch names another one.
func TestNamespacedMutatingPolicyExisting(t *testing.T) {
	start(t)
	namespaces(t, "mxn", "mxn-other")
	for _, namespace := range []string{"mxn", "mxn-other"} {
		create(t, configMap(namespace, "target", map[string]string{"listed": "yes"}, map[string]string{"k": "v"}))
	}
	celApply(t, "namespacedmutatingpolicies", namespacedMutating)
	has(t, "mxn", "target", "by", "tenant")
	create(t, configMap("mxn-other", "t", nil, nil))
	create(t, configMap("mxn", "t", nil, nil))
	drained(t)
	if got := state(t, "mxn-other", "target", "by"); got != "" {
		t.Errorf("the policy worked elsewhere: %q", got)
	}
}

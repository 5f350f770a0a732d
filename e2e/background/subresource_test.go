package background

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

const subresourcePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: subresources}
spec:
  rules:
  - name: exec
    match: {any: [{resources: {kinds: [Pod/exec], namespaces: [subresources]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: exec, namespace: "{{request.namespace}}", data: {data: {k: "{{request.name}} {{request.object.command[0]}}"}}}
  - name: eviction
    match: {any: [{resources: {kinds: [Pod/eviction], namespaces: [subresources]}}]}
    generate: {apiVersion: v1, kind: ConfigMap, name: eviction, namespace: "{{request.namespace}}", data: {data: {k: "{{request.name}}"}}}
  - name: mark
    match: {any: [{resources: {kinds: [Pod/exec], namespaces: [subresources]}}]}
    mutate:
      targets: [{apiVersion: v1, kind: Pod, namespace: "{{request.namespace}}", name: "{{request.name}}"}]
      patchStrategicMerge: {metadata: {labels: {entered: "{{request.object.container}}"}}}
`

const subresourcePod = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: subresources}, spec: {containers: [{name: c, image: none}]}}`

// Requests for subresources of Pods are triggers: exec, which the API server reviews before it contacts a node, and whose target may be the
// Pod itself; and eviction, which deletes a Pod without a node.
func TestSubresources(t *testing.T) {
	start(t)
	namespaces(t, "subresources")
	apply(t, subresourcePolicy)
	suite.Eventually(t, func() error { // the namespace controller creates the ServiceAccount first
		_, err := cluster.Try(t, subresourcePod, "create", "-f", "-")
		return err
	})
	if _, err := cluster.Try(t, "", "exec", "-n", "subresources", "p", "-c", "c", "--", "ls"); err == nil || strings.Contains(err.Error(), "denied the request") {
		t.Errorf("exec in a Pod on no node: %v", err)
	}
	has(t, "subresources", "exec", "k", "p ls")
	trigger := func(of string) string {
		const label = `{.metadata.labels.generate\.kyverno\.io/trigger-`
		return cluster.Must(t, "", "get", "configmap", of, "-n", "subresources", "-o", "jsonpath="+label+"group}/"+label+"version} "+label+"kind} "+label+"namespace}")
	}
	if got := trigger("exec"); got != "/v1 PodExecOptions subresources" {
		t.Errorf("the trigger of exec is %s", got)
	}
	suite.Eventually(t, func() error {
		if got := cluster.Must(t, "", "get", "pod", "p", "-n", "subresources", "-o", "jsonpath={.metadata.labels.entered}"); got != "c" {
			return fmt.Errorf("the label of the Pod is %q, left is %v", got, requests(t))
		}
		return nil
	})
	cluster.Must(t, `{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "subresources"}}`,
		"create", "--raw", "/api/v1/namespaces/subresources/pods/p/eviction", "-f", "-")
	has(t, "subresources", "eviction", "k", "p")
	if got := trigger("eviction"); got != "policy/v1 Eviction subresources" {
		t.Errorf("the trigger of the eviction is %s", got)
	}
	if got := cluster.Must(t, "", "get", "pod", "p", "-n", "subresources", "--ignore-not-found", "-o", "name"); got != "" {
		t.Errorf("evicted, and there: %s", got)
	}
	drained(t)
}

// resizePolicies resize Pods by the label cpu, and refuse Pods with the label and more than one CPU.
const resizePolicies = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: resizes}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: resizes}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
  targetMatchConstraints:
    expression: resource.get("v1", "pods", string(request.namespace), string(request.name))
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods/resize]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'replace', path: '/spec/containers/0/resources/requests/cpu', value: object.metadata.labels.cpu}]"}
`

const resizeLimit = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: resize-limit}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: resizes}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [pods]}]
  validations:
  - {expression: "quantity(object.spec.containers[0].resources.requests.cpu).compareTo(quantity('1')) <= 0", message: more than one CPU}
`

// A ValidatingPolicy on updates of Pods is asked about the resizes by the background controller, and refuses those that violate it. A
// resize is no trigger of a policy on Pods: there is no further work after it.
func TestResizesOfTheBackgroundController(t *testing.T) {
	start(t)
	namespaces(t, "resizes")
	suite.Eventually(t, func() error {
		_, err := cluster.Try(t, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: resizes, labels: {cpu: 200m}},
			spec: {containers: [{name: c, image: none, resources: {requests: {cpu: 100m}, limits: {cpu: 4}}}]}}`, "create", "-f", "-")
		return err
	})
	celApply(t, "validatingpolicies", resizeLimit)
	celApply(t, "mutatingpolicies", resizePolicies)
	state := func(field string) string {
		return cluster.Must(t, "", "get", "pod", "p", "-n", "resizes", "-o", "jsonpath={"+field+"}")
	}
	const cpu = ".spec.containers[0].resources.requests.cpu"
	n := 0
	suite.Eventually(t, func() error { // the webhooks take effect after a moment
		n++
		cluster.Must(t, "", "annotate", "pod", "p", "-n", "resizes", fmt.Sprintf("try=%d", n), "--overwrite")
		if got := state(cpu); got != "200m" {
			return fmt.Errorf("the request is %q, left is %v", got, requests(t))
		}
		return nil
	})
	drained(t)
	cluster.Must(t, "", "label", "pod", "p", "-n", "resizes", "cpu=2", "--overwrite")
	if got := failing(t, "resizes", "more than one CPU"); got.Status.Message == "" {
		t.Error("no message")
	}
	if got := state(cpu); got != "200m" {
		t.Errorf("the request is %q", got)
	}
}

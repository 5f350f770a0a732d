package cel

import (
	"fmt"
	"testing"
)

// A MutatingPolicy changes created objects, also in dry runs, and is ready then. Apply configurations merge the lists of known kinds by
// their keys.
func TestMutatingPolicy(t *testing.T) {
	cluster.Namespace(t, "e2e-cel-mutate")
	apply(t, "mutatingpolicy", "e2e-label", `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: e2e-label}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: here, expression: "request.namespace == 'e2e-cel-mutate'"}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': 'a'}}]"}
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'side', image: 'side:1'}]}}"
`)
	eventually(t, func() error {
		out, err := kubectl(t, "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: e2e-cel-mutate}, spec: {containers: [{name: main, image: 'main:1'}]}}",
			"create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels.team} {.spec.containers[*].name}")
		if err == nil && out != "a main side" && out != "a side main" {
			err = fmt.Errorf("the Pod has %q", out)
		}
		return err
	})
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "mutatingpolicy", "e2e-label", "-o", "jsonpath={.status.conditionStatus.ready} {.status.autogen.configs.defaults.targets[*].kind}")
		if err == nil && out != "true DaemonSet Deployment ReplicaSet StatefulSet Job" {
			err = fmt.Errorf("the status has %q", out)
		}
		return err
	})
}

// A MutatingPolicy with targets changes nothing unless mutateExisting is enabled, and its status reports it.
func TestMutatingPolicyWithTargets(t *testing.T) {
	cluster.Apply(t, `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: e2e-targets}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}
  targetMatchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': 'a'}}]"}
`)
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "mutatingpolicy", "e2e-targets", "-o", "jsonpath={.status.conditionStatus.ready} {.status.conditionStatus.conditions[?(@.type=='WebhookConfigured')].message}")
		if err == nil && out != "false Policy is not configured in the webhook." {
			err = fmt.Errorf("the status has %q", out)
		}
		return err
	})
}

package background

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// lackingRights are the rights that the work of lackingPolicies needs. Nothing else in the cluster grants them.
const lackingRights = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: lacking-rights, labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}}
rules: [{apiGroups: [""], resources: [podtemplates], verbs: [get, list, watch, create, update, delete]}]
`

const lackingPolicies = `
apiVersion: policies.kyverno.io/v1
kind: GeneratingPolicy
metadata: {name: lacking}
spec:
  evaluation: {synchronize: {enabled: true}}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  variables:
  - name: made
    expression: '[{"apiVersion": dyn("v1"), "kind": dyn("PodTemplate"), "metadata": dyn({"name": "made"})}]'
  generate: [{expression: 'generator.Apply(object.metadata.namespace, variables.made)'}]
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: lacking}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  targetMatchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [podtemplates]}]}
  mutations: [{patchType: ApplyConfiguration, applyConfiguration: {expression: 'Object{metadata: Object.metadata{labels: Object.metadata.labels{a: "b"}}}'}}]
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: lacking}
spec:
  rules:
  - name: make
    match: {any: [{resources: {kinds: [ConfigMap], names: [lacking]}}]}
    generate: {apiVersion: v1, kind: PodTemplate, name: made, namespace: default, data: {template: {}}}
`

// The status and an event of a policy report missing rights for its work, and the status follows when rights are granted and revoked.
func TestLackingRights(t *testing.T) {
	documents := strings.SplitN(lackingPolicies, "---\napiVersion: kyverno.io/v1", 2)
	cel, classic := documents[0], "apiVersion: kyverno.io/v1"+documents[1]
	t.Cleanup(func() {
		cluster.Must(t, lackingPolicies, "delete", "--ignore-not-found", "-f", "-")
		cluster.Must(t, lackingRights, "delete", "--ignore-not-found", "-f", "-")
	})
	status := func(kind, path string, want ...string) {
		t.Helper()
		suite.Until(t, kind+" has the status "+strings.Join(want, " "), func() error {
			got := cluster.Must(t, "", "get", kind, "lacking", "-o", "jsonpath={.status."+path+"}")
			for _, text := range want {
				if !strings.Contains(got, text) {
					return fmt.Errorf("%q lacks %q", got, text)
				}
			}
			return nil
		})
	}
	const rights, missing = `conditionStatus.conditions[?(@.type=="RBACPermissionsGranted")].message`, "The background controller cannot carry out the policy, missing permissions: "
	lacks := func() {
		t.Helper()
		status("generatingpolicy", rights, missing, "create /v1, Resource=podtemplates", "delete /v1, Resource=podtemplates")
		status("mutatingpolicy", rights, missing, "update /v1, Resource=podtemplates")
		for _, kind := range []string{"generatingpolicy", "mutatingpolicy"} {
			status(kind, "conditionStatus.ready", "false")
		}
	}
	reported := func(kind string) {
		t.Helper()
		suite.Eventually(t, func() error {
			got := cluster.Must(t, "", "get", "events", "-A", "--field-selector", "reason=PolicyError,involvedObject.kind="+kind+",involvedObject.name=lacking", "-o", "jsonpath={.items[*].message}")
			if !strings.Contains(got, "the background controller cannot carry out the policy") || !strings.Contains(got, "aggregate-to-background-controller") {
				return fmt.Errorf("no event: %q", got)
			}
			return nil
		})
	}

	cluster.Must(t, cel, "create", "-f", "-")
	lacks()
	reported("GeneratingPolicy")
	reported("MutatingPolicy")

	cluster.Must(t, lackingRights, "create", "-f", "-")
	for _, kind := range []string{"generatingpolicy", "mutatingpolicy"} {
		status(kind, "conditionStatus.ready", "true")
	}
	suite.Eventually(t, func() error { // the review of the policy checks the rights too
		_, err := cluster.Try(t, classic, "create", "-f", "-")
		return err
	})
	status("clusterpolicy", "conditions[0].message", "Ready")

	cluster.Must(t, lackingRights, "delete", "-f", "-")
	lacks()
	status("clusterpolicy", "conditions[0].message", "Not Ready: system:serviceaccount:kyverno:kyverno-background-controller requires permissions get,create for resource v1/PodTemplate in namespace default")
	reported("ClusterPolicy")

	cluster.Must(t, lackingRights, "create", "-f", "-")
	status("clusterpolicy", "conditions[0].status", "True")
	status("generatingpolicy", "conditionStatus.ready", "true")
}

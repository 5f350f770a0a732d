package trust

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const t2MutatingPolicy = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: t2-mutate}
spec:
  evaluation: {mutateExisting: {enabled: true}}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [namespaces]}]
  matchConditions: [{name: team, expression: "object.metadata.?labels['t2-mutate'].orValue('') == 'yes'"}]
  targetMatchConstraints:
    expression: "resource.get('v1', 'configmaps', string(object.metadata.name), 'target')"
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/data/by', value: string(object.metadata.namespace)}]"}
`

// T2: an UpdateRequest requests a change by a MutatingPolicy for an object of mallory's that is no trigger, or that only the stored request
// claims to be one. It is denied, or changes nothing.
func TestT2ForgedMutateRequestCEL(t *testing.T) {
	cluster.Start(t, devcluster.Background)
	const trigger = "t2-mutate-trigger"
	for _, namespace := range []string{mallory, "victim"} {
		cluster.Must(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: target, namespace: "+namespace+"}\ndata: {k: v}\n", "create", "-f", "-")
		t.Cleanup(func() {
			_, _ = cluster.Try(t, "", "delete", "configmap", "target", "-n", namespace, "--ignore-not-found")
		})
	}
	cluster.Apply(t, t2MutatingPolicy)
	suite.Eventually(t, func() error {
		return equal(cluster.Must(t, "", "get", "mutatingpolicy", "t2-mutate", "-o", "jsonpath={.status.conditionStatus.conditions[?(@.type=='WebhookConfigured')].status}"), "True")
	})
	changed := func(namespace string) string {
		return cluster.Must(t, "", "get", "configmap", "target", "-n", namespace, "-o", "jsonpath={.data.by}")
	}
	const request = `
apiVersion: kyverno.io/v2
kind: UpdateRequest
metadata: {generateName: ur-, namespace: %s}
spec:
  requestType: cel-mutate
  policy: t2-mutate
  rule: ""
  deleteDownstream: false
  resource: {apiVersion: v1, kind: Namespace, name: %s, uid: %s}
  context: %s
`
	const bare = "{admissionRequestInfo: {}, userInfo: {}}"
	own, victim := uidOf(t, "namespace", mallory), uidOf(t, "namespace", "victim")
	if _, err := cluster.Try(t, fmt.Sprintf(request, suite.Namespace, mallory, own, bare), "create", "-f", "-", "--as="+mallory); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("mallory writes an UpdateRequest in the namespace of the controllers: %v", err)
	}
	// An administrator's UpdateRequest is read but not believed: the trigger is the object in the cluster, which has no label.
	claimed := fmt.Sprintf(`{userInfo: {}, admissionRequestInfo: {operation: CREATE, admissionRequest: {uid: u, operation: CREATE, kind: {group: "", version: v1, kind: Namespace},
    resource: {group: "", version: v1, resource: namespaces}, name: victim, userInfo: {username: admin},
    object: {apiVersion: v1, kind: Namespace, metadata: {name: victim, uid: %s, labels: {t2-mutate: "yes"}}}}}}`, victim)
	for _, text := range []string{
		fmt.Sprintf(request, suite.Namespace, mallory, own, bare),
		fmt.Sprintf(request, suite.Namespace, "victim", victim, claimed),
	} {
		cluster.Must(t, text, "create", "-f", "-")
		workDone(t, "t2-mutate")
	}
	for _, namespace := range []string{mallory, "victim"} {
		if got := changed(namespace); got != "" {
			t.Errorf("a forged UpdateRequest changes the object in %s: by is %q", namespace, got)
		}
	}
	// A real trigger has its effect, so the policy works.
	cluster.Must(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+trigger+"}", "create", "-f", "-")
	t.Cleanup(func() {
		_, _ = cluster.Try(t, "", "delete", "namespace", trigger, "--ignore-not-found", "--wait=false")
	})
	cluster.Must(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: target, namespace: "+trigger+"}\ndata: {k: v}\n", "create", "-f", "-")
	cluster.Must(t, "", "label", "namespace", trigger, "t2-mutate=yes")
	suite.Until(t, "the target of a real trigger is changed", func() error { return equal(changed(trigger), trigger) })
}

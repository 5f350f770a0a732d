package trust

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const t2GeneratingPolicy = `
apiVersion: policies.kyverno.io/v1
kind: GeneratingPolicy
metadata: {name: t2-cel}
spec:
  evaluation: {synchronize: {enabled: true}}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [namespaces]}]
  matchConditions: [{name: team, expression: "object.metadata.?labels['t2-cel'].orValue('') == 'yes'"}]
  generate:
  - expression: "generator.apply(string(object.metadata.name), [{'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'made'}, 'data': {'k': 'v'}}])"
`

// t2CELLabels returns the labels of an object that a GeneratingPolicy created for a Namespace, as any user can write them.
func t2CELLabels(policy, name, uid string) string {
	return fmt.Sprintf(`{app.kubernetes.io/managed-by: kyverno, generate.kyverno.io/policy-name: %s, generate.kyverno.io/trigger-group: "", generate.kyverno.io/trigger-version: v1, `+
		`generate.kyverno.io/trigger-kind: Namespace, generate.kyverno.io/trigger-namespace: "", generate.kyverno.io/trigger-name: %s, generate.kyverno.io/trigger-uid: %s}`, policy, name, uid)
}

// T2: labels of mallory's object claim that a GeneratingPolicy created it for another namespace, or for mallory's, which is no trigger.
// Changes and deletions of it have no effect, and it is not deleted with that namespace. An UpdateRequest in mallory's namespace is not
// executed.
func TestT2ForgedLabelsCEL(t *testing.T) {
	cluster.Start(t, devcluster.Background)
	cluster.Apply(t, t2GeneratingPolicy)
	suite.Eventually(t, func() error {
		return equal(cluster.Must(t, "", "get", "generatingpolicy", "t2-cel", "-o", "jsonpath={.status.conditionStatus.ready}"), "true")
	})
	const victim = "t2-cel-victim"
	cluster.Must(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+victim+", labels: {t2-cel: 'yes'}}", "create", "-f", "-")
	t.Cleanup(func() { _, _ = cluster.Try(t, "", "delete", "namespace", victim, "--ignore-not-found", "--wait=false") })
	made := generated(t, "configmap", "made", "-n", victim)
	workDone(t, "t2-cel")
	trigger, own := uidOf(t, "namespace", victim), uidOf(t, "namespace", mallory)
	for name, labels := range map[string]string{"of-the-victim": t2CELLabels("t2-cel", victim, trigger), "made": t2CELLabels("t2-cel", mallory, own)} {
		removes(t, "configmap", name, mallory)
		manifest := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", labels: " + labels + "}\ndata: {k: forged}\n"
		for _, do := range [][]string{{"create", "-f", "-"}, {"annotate", "configmap", name, "touched=yes"}, {"delete", "configmap", name}, {"create", "-f", "-"}} {
			stdin := ""
			if do[0] == "create" {
				stdin = manifest
			}
			if _, err := asMallory(t, stdin, do...); err != nil {
				t.Fatal(err)
			}
			workDone(t, "t2-cel")
		}
	}
	forged := uidOf(t, "configmap", "of-the-victim", "-n", mallory)

	const request = `
apiVersion: kyverno.io/v2
kind: UpdateRequest
metadata: {generateName: ur-, namespace: %s}
spec: {requestType: cel-generate, policy: t2-cel, rule: t2-cel, deleteDownstream: false, resource: {apiVersion: v1, kind: Namespace, name: mallory, uid: %s}, context: {admissionRequestInfo: {}, userInfo: {}}}
`
	if _, err := cluster.Try(t, fmt.Sprintf(request, suite.Namespace, own), "create", "-f", "-", "--as="+mallory); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("mallory writes an UpdateRequest in the namespace of the controllers: %v", err)
	}
	// An administrator's UpdateRequest for an object that is no trigger creates nothing; one in another namespace is not read.
	cluster.Must(t, fmt.Sprintf(request, suite.Namespace, own), "create", "-f", "-")
	elsewhere := cluster.Must(t, fmt.Sprintf(request, mallory, own), "create", "-f", "-", "-o", "jsonpath={.metadata.name}")
	workDone(t, "t2-cel")
	if got := cluster.Must(t, "", "get", "configmap", "made", "-n", mallory, "-o", "jsonpath={.data.k}"); got != "forged" {
		t.Errorf("the policy wrote an object for what is no trigger: k is %q", got)
	}
	if got := cluster.Must(t, "", "get", "updaterequest", elsewhere, "-n", mallory, "-o", "jsonpath={.status.state}"); got != "" {
		t.Errorf("an UpdateRequest of mallory's namespace is %s", got)
	}
	cluster.Must(t, "", "delete", "updaterequest", elsewhere, "-n", mallory)
	if got := uidOf(t, "configmap", "made", "-n", victim); got != made {
		t.Errorf("mallory deletes the object of another namespace: its UID is %q, and was %q", got, made)
	}

	// The Namespace is no longer a trigger: generated objects are deleted, and the forged one stays.
	cluster.Must(t, "", "label", "namespace", victim, "t2-cel-")
	suite.Until(t, "what was made is deleted", func() error { return equal(uidOf(t, "configmap", "made", "-n", victim), "") })
	workDone(t, "t2-cel")
	if got := uidOf(t, "configmap", "of-the-victim", "-n", mallory); got != forged {
		t.Errorf("an object with forged labels goes with the trigger: its UID is %q, and was %q", got, forged)
	}
}

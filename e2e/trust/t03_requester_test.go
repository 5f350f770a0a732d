package trust

import (
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

const t3Policy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t3}
spec:
  background: false
  rules:
  - name: credentials
    match: {any: [{resources: {kinds: [ConfigMap], names: [wants-credentials]}, subjects: [{kind: User, name: alice}]}]}
    generate:
      generateExisting: true
      synchronize: true
      apiVersion: v1
      kind: Secret
      name: credentials
      namespace: "{{request.namespace}}"
      clone: {namespace: victim, name: credentials}
---
apiVersion: v1
kind: Secret
metadata: {name: credentials, namespace: victim}
stringData: {password: first}
---
apiVersion: v1
kind: Namespace
metadata: {name: t3-alice}
`

// T3: a rule copies a Secret for objects that alice creates. Labels of mallory's object claim that it is a copy for an object of mallory's;
// and an object of mallory's exists before the policy. The Secret is copied for neither. The copy for alice is updated.
func TestT3RequesterConditions(t *testing.T) {
	removes(t, "configmap", "wants-credentials", mallory)
	if _, err := asMallory(t, "", "create", "configmap", "wants-credentials"); err != nil {
		t.Fatal(err)
	}
	cluster.Start(t, devcluster.Background)
	cluster.Apply(t, t3Policy)
	cluster.Must(t, "", "wait", "--for=condition=Ready", "clusterpolicy", "t3")
	trigger := uidOf(t, "configmap", "wants-credentials", "-n", "mallory")
	password := func(namespace string) string {
		return cluster.Must(t, "", "get", "secret", "credentials", "-n", namespace, "--ignore-not-found", "-o", "jsonpath={.data.password}")
	}
	source := uidOf(t, "secret", "credentials", "-n", "victim")
	forged := "apiVersion: v1\nkind: Secret\nmetadata: {name: forged, labels: " +
		forgedLabels("t3", "credentials", "ConfigMap", "mallory", trigger, ", generate.kyverno.io/source-uid: "+source) + "}"
	if _, err := asMallory(t, forged, "create", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	cluster.Must(t, "", "create", "configmap", "wants-credentials", "-n", "t3-alice", "--as=alice", "--as-group=system:masters")
	copied := generated(t, "secret", "credentials", "-n", "t3-alice")
	workDone(t, "t3")
	none := func(after string) {
		t.Helper()
		workDone(t, "t3")
		if p := password("mallory"); p != "" {
			t.Fatalf("%s: mallory reads a Secret of another namespace: %s", after, p)
		}
	}
	none("the policy was created after her object")

	// The source changes: alice's copy is updated, and the forged copy is not.
	cluster.Must(t, `{"stringData": {"password": "second"}}`, "patch", "secret", "credentials", "-n", "victim", "--type=merge", "--patch-file=/dev/stdin")
	suite.Until(t, "the copy follows its source", func() error { return equal(password("t3-alice"), "c2Vjb25k") })
	none("the source was changed")

	if _, err := asMallory(t, "", "annotate", "secret", "forged", "touched=yes"); err != nil {
		t.Fatal(err)
	}
	none("she changed the object with forged labels")
	if _, err := asMallory(t, "", "delete", "secret", "forged"); err != nil {
		t.Fatal(err)
	}
	none("she deleted the object with forged labels")

	// Alice's copy is restored, also after another user deletes it.
	cluster.Must(t, "", "delete", "secret", "credentials", "-n", "t3-alice")
	suite.Until(t, "the copy is made again", func() error { return equal(password("t3-alice"), "c2Vjb25k") })
	if uidOf(t, "secret", "credentials", "-n", "t3-alice") == copied {
		t.Error("the copy was not deleted")
	}
	none("alice's copy was made again")
}

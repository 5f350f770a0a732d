package trust

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

const directoryPolicy = `
apiVersion: v1
kind: Secret
metadata: {name: directory, namespace: victim}
stringData: {password: t6-in-the-clear}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: t6-contact}
spec:
  background: false
  rules:
  - name: contact
    match: {any: [{resources: {kinds: [ConfigMap], names: ["t6-*"]}}]}
    context:
    - name: directory
      apiCall: {urlPath: /api/v1/namespaces/victim/secrets/directory}
    validate:
      failureAction: Enforce
      message: "the contact {{ request.object.metadata.annotations.contact }} is not one of {{ length(directory.data) }}"
      deny: {conditions: {all: [{key: "contact {{ request.object.metadata.annotations.contact }}", operator: NotEquals, value: "contact a"}]}}
`

// TestT6DataIsNotEvaluated: an annotation that mallory writes is text. The policy reads a Secret, but neither the denial nor its Event
// contains any part of it, and an expression is not equal to its value.
func TestT6DataIsNotEvaluated(t *testing.T) {
	removes(t, "configmap", "t6-good", mallory)
	removes(t, "secret", "directory", "victim")
	cluster.Kubectl(t.Context(), []byte(directoryPolicy), "apply", "-f", "-")
	t.Cleanup(func() { cluster.Try(t, "", "delete", "clusterpolicy", "t6-contact") })
	suite.Eventually(t, func() error {
		_, err := cluster.Try(t, "", "wait", "--for=condition=Ready", "clusterpolicy/t6-contact", "--timeout=1s")
		return err
	})
	make := func(name, contact string) (string, error) {
		return asMallory(t, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: "+name+"\n  annotations:\n    contact: \""+contact+"\"\n", "create", "-f", "-")
	}
	// The webhook covers ConfigMaps a moment after the policy is ready.
	suite.Eventually(t, func() error {
		if out, err := make("t6-wait", "x"); err == nil {
			asMallory(t, "", "delete", "configmap", "t6-wait")
			return errAdmitted(out)
		}
		return nil
	})
	for contact, want := range map[string]string{
		"{{ directory.data }}":          "the contact {{ directory.data }} is not one of 1",
		"{{ directory.data.password }}": "the contact {{ directory.data.password }} is not one of 1",
		"{{ 'a' }}":                     "the contact {{ 'a' }} is not one of 1",
	} {
		out, err := make("t6-attack", contact)
		if err == nil {
			t.Fatalf("admitted: %s", out)
		}
		text := out + err.Error()
		if !strings.Contains(text, want) || strings.Contains(text, "dDYtaW4t") || strings.Contains(text, "t6-in-the-clear") {
			t.Errorf("%s: %s", contact, text)
		}
	}
	if out, err := make("t6-good", "a"); err != nil {
		t.Errorf("what is allowed was refused: %s %v", out, err)
	}
	events, err := cluster.Try(t, "", "get", "events", "-A", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(events, "dDYtaW4t") || strings.Contains(events, "t6-in-the-clear") {
		t.Error("an Event shows the Secret")
	}
}

type errAdmitted string

func (e errAdmitted) Error() string { return "admitted: " + string(e) }

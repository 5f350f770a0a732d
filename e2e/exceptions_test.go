package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const hostsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-exceptions}
spec:
  rules:
  - name: owner
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-exceptions]}}]}
    validate:
      failureAction: Enforce
      message: "an owner is required"
      pattern: {metadata: {labels: {owner: "?*"}}}
`

const ownerException = `
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: legacy, namespace: e2e-exceptions}
spec:
  match: {any: [{resources: {kinds: [ConfigMap], names: ["legacy-*"]}}]}
  exceptions: [{policyName: e2e-exceptions, ruleNames: [owner]}]
`

// An exception applies from its creation to its deletion, to the selected rules and resources only. An invalid one is rejected.
func TestException(t *testing.T) {
	cluster.Namespace(t, "e2e-exceptions")
	applyPolicies(t, policyFile(t, hostsPolicy))
	create := func(name string) error {
		_, err := kubectl(t, "", "create", "configmap", name, "-n", "e2e-exceptions", "--dry-run=server")
		return err
	}
	eventually(t, func() error {
		if _, ok := refused(create("legacy-1")); !ok {
			return errAdmitted
		}
		return nil
	})
	bad := strings.Replace(ownerException, "policyName: e2e-exceptions", `policyName: ""`, 1)
	eventually(t, func() error {
		_, err := kubectl(t, bad, "create", "-f", "-", "--dry-run=server")
		if text, ok := refused(err); !ok || !strings.Contains(text, "An exception requires a policy name") {
			return fmt.Errorf("not refused: %v", err)
		}
		return nil
	})
	must(t, ownerException, "create", "-f", "-")
	eventually(t, func() error { return create("legacy-1") })
	if text, ok := refused(create("new")); !ok || !strings.Contains(text, "an owner is required") {
		t.Errorf("another object is exempt: %s", text)
	}
	must(t, "", "delete", "policyexception", "legacy", "-n", "e2e-exceptions")
	eventually(t, func() error {
		if _, ok := refused(create("legacy-1")); !ok {
			return errors.New("the exception is gone and still exempts")
		}
		return nil
	})
}

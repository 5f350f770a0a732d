package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/cli"
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

const wideExceptions = `
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: wide, namespace: e2e-wide}
spec:
  match: {any: [{resources: {kinds: [Service], namespaces: [e2e-wide], names: ["*"]}}]}
  exceptions: [{policyName: e2e-wide, ruleNames: [owner]}]
---
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: small, namespace: e2e-wide}
spec:
  match: {any: [{resources: {kinds: [Service], namespaces: [e2e-wide], names: [one]}}]}
  exceptions: [{policyName: e2e-wide, ruleNames: [owner]}]
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-wide}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: e2e-wide}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [services]}]
  validations: [{expression: "'owner' in object.metadata.?labels.orValue({})", message: "an owner is required"}]
---
apiVersion: policies.kyverno.io/v1
kind: PolicyException
metadata: {name: wide-cel, namespace: e2e-wide}
spec:
  policyRefs: [{name: e2e-wide, kind: ValidatingPolicy}]
`

// `ephor lint --cluster` says how many objects of the cluster each wide exception selects.
func TestLintCountsObjects(t *testing.T) {
	cluster.Namespace(t, "e2e-wide")
	for _, name := range []string{"one", "two", "three"} {
		must(t, "", "create", "service", "clusterip", name, "-n", "e2e-wide", "--tcp=80")
	}
	path := filepath.Join(t.TempDir(), "wide.yaml")
	if err := os.WriteFile(path, []byte(wideExceptions), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	root := cli.NewRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	cli.Main([]string{"ephor", "lint", path, "--cluster", "--kubeconfig", cluster.Kubeconfig}, root)
	counted := 0
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, "[wide-exception]") {
			counted++
			if !strings.Contains(line, "(it selects 3 objects of the cluster)") {
				t.Errorf("no count: %s", line)
			}
		}
	}
	if counted < 2 || strings.Contains(out.String(), "wide.yaml:8:") {
		t.Errorf("not both wide exceptions are found:\n%s", out.String())
	}
}

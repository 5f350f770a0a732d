package cel

import (
	"fmt"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/devcluster"
)

// The annotation ephor.dev/actions gives a policy other actions in some namespaces: by their names, and by their labels, which may change. Reports
// hold the failures of all of them.
func TestActionsInSomeNamespaces(t *testing.T) {
	const name, text = "e2e-actions", "the policy in CEL asks for an owner"
	_, written := ownedPolicies(name, "unused")
	written = strings.NewReplacer(
		"metadata: {name: "+name+"}", `
metadata:
  name: `+name+`
  annotations:
    ephor.dev/actions: |
      [{"actions": ["Audit"], "namespaces": ["e2e-actions-dev*"]},
       {"actions": ["Warn"], "namespaceSelector": {"matchLabels": {"stage": "test"}}}]`,
		"matchLabels: {kubernetes.io/metadata.name: unused}", "matchLabels: {e2e: actions}",
		"spec:", "spec:\n  autogen: {validatingAdmissionPolicy: {enabled: true}}",
	).Replace(written)
	const live, dev, staged = "e2e-actions-live", "e2e-actions-dev1", "e2e-actions-staged"
	for ns, more := range map[string]string{live: "", dev: "", staged: ", stage: test"} {
		cluster.Apply(t, fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s, labels: {e2e: actions%s}}}", ns, more))
		cluster.Apply(t, configMap(ns, "earlier"))
	}
	cluster.Start(t, devcluster.Reports)
	apply(t, "validatingpolicy", name, written)
	is(t, "false skip generating ValidatingAdmissionPolicy: other actions in some namespaces are not applicable.", "validatingpolicy", name, "-o", nativeStatus)

	denied(t, configMap(live, "new"), text)
	denied(t, configMap(dev, "new"), "")
	eventually(t, func() error {
		_, err := kubectl(t, configMap(staged, "new"), "create", "--dry-run=server", "-f", "-", "--warnings-as-errors")
		if err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "1 warning received") {
			return fmt.Errorf("it is not admitted with a warning: %w", err)
		}
		return nil
	})
	for _, ns := range []string{live, dev, staged} {
		reported(t, ns, "earlier", name, "fail  ")
	}

	must(t, "", "label", "namespace", staged, "stage-")
	denied(t, configMap(staged, "new"), text)
}

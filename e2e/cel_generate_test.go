package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const celGeneratePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: native}
spec:
  rules:
  - name: labelled
    match: {any: [{resources: {kinds: [ConfigMap], operations: [CREATE, UPDATE], namespaces: [%s]}}]}
    validate:
      failureAction: %s
      cel:
        generate: true
        expressions: [{expression: "has(object.metadata.labels)", message: "labels are needed"}]
`

const celGenerateException = `
apiVersion: kyverno.io/v2
kind: PolicyException
metadata: {name: native, namespace: native}
spec:
  exceptions: [{policyName: native, ruleNames: [labelled]}]
  match: {any: [{resources: {kinds: [ConfigMap], %s}}]}
`

// For a CEL rule with generate: true, Ephor also writes a ValidatingAdmissionPolicy. It follows the policy and its exceptions, is deleted
// with it, is restored after a deletion, and denies requests while Ephor does not answer.
func TestCELGenerate(t *testing.T) {
	cluster.Namespace(t, "native")
	const vap = "validatingadmissionpolicy"
	is := func(what, want string, args ...string) {
		t.Helper()
		eventually(t, func() error {
			if got, err := kubectl(t, "", append([]string{"get"}, args...)...); err != nil || got != want {
				return fmt.Errorf("%s: %q, want %q (%w)", what, got, want, err)
			}
			return nil
		})
	}
	status := func(want string) {
		t.Helper()
		is("the status", want, "clusterpolicy", "native", "-o", "jsonpath={.status.validatingadmissionpolicy.generated} {.status.validatingadmissionpolicy.message}")
	}
	applyPolicies(t, policyFile(t, fmt.Sprintf(celGeneratePolicy, "native", "Audit")))
	status("true ")
	is("the binding", `["Audit","Warn"] cpol-native`, vap+"binding", "cpol-native-binding", "-o", "jsonpath={.spec.validationActions} {.spec.policyName}")
	is("the policy", "labels are needed kyverno ClusterPolicy configmaps", vap, "cpol-native", "-o",
		`jsonpath={.spec.validations[0].message} {.metadata.labels.app\.kubernetes\.io/managed-by} {.metadata.ownerReferences[0].kind} {.spec.matchConstraints.resourceRules[0].resources[0]}`)

	must(t, fmt.Sprintf(celGeneratePolicy, "native", "Enforce"), "apply", "-f", "-")
	is("the binding", `["Deny"]`, vap+"binding", "cpol-native-binding", "-o", "jsonpath={.spec.validationActions}")

	// An exception that the API server's policy can express is translated; any other ends the generation, with the reason.
	must(t, fmt.Sprintf(celGenerateException, "names: [spared]"), "apply", "-f", "-")
	is("what is excluded", `["spared"]`, vap, "cpol-native", "-o", "jsonpath={.spec.matchConstraints.excludeResourceRules[0].resourceNames}")
	must(t, fmt.Sprintf(celGenerateException, "selector: {matchLabels: {a: b}}"), "apply", "-f", "-")
	status("false skip generating ValidatingAdmissionPolicy: NamespaceSelector / ObjectSelector in the exclude block is not applicable.")
	is("the policy", "", vap, "cpol-native", "--ignore-not-found", "-o", "name")
	must(t, "", "delete", "policyexception", "native", "-n", "native")
	status("true ")

	// Ephor also evaluates the rule itself.
	eventually(t, func() error {
		_, err := kubectl(t, "", "create", "configmap", "bare", "-n", "native")
		if err == nil || !strings.Contains(err.Error(), "labels are needed") {
			return fmt.Errorf("an object without labels: %w", err)
		}
		return nil
	})
	// While the policy audits first, neither Ephor nor the API server enforces it.
	auditFirst := func(value string) {
		t.Helper()
		must(t, "", "patch", "configmap", "kyverno", "-n", "kyverno", "--type=merge", "-p", `{"data":{"auditFirst":`+value+`}}`)
	}
	t.Cleanup(func() { auditFirst("null") })
	auditFirst(`"ClusterPolicy/native"`)
	status("false the policy audits first, so the API server does not enforce it")
	is("the policy", "", vap, "cpol-native", "--ignore-not-found", "-o", "name")
	eventually(t, func() error {
		_, err := kubectl(t, "", "create", "configmap", "bare", "-n", "native", "--dry-run=server")
		return err
	})
	auditFirst("null")
	status("true ")
	eventually(t, func() error {
		if _, err := kubectl(t, "", "create", "configmap", "bare", "-n", "native", "--dry-run=server"); err == nil {
			return errors.New("an object without labels is admitted")
		}
		return nil
	})
	must(t, "", "delete", vap, "cpol-native")
	must(t, fmt.Sprintf(celGeneratePolicy, "native, other", "Enforce"), "apply", "-f", "-")
	is("the policy", `["native","other"]`, vap, "cpol-native", "-o", "jsonpath={.spec.matchConstraints.namespaceSelector.matchExpressions[0].values}")

	must(t, strings.Replace(fmt.Sprintf(celGeneratePolicy, "native", "Enforce"), "generate: true", "generate: false", 1), "apply", "-f", "-")
	is("the policy", "", vap, "cpol-native", "--ignore-not-found", "-o", "name")
	status("false skip generating ValidatingAdmissionPolicy: validate.cel.generate is not set to true.")
}

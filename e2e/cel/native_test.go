package cel

import (
	"fmt"
	"strings"
	"testing"
)

// is waits until kubectl get prints the text.
func is(t *testing.T, want string, args ...string) {
	t.Helper()
	eventually(t, func() error {
		if got, err := kubectl(t, "", append([]string{"get"}, args...)...); err != nil || got != want {
			return fmt.Errorf("%q, want %q (%w)", got, want, err)
		}
		return nil
	})
}

const nativeStatus = "jsonpath={.status.generated} {.status.conditionStatus.message}"

// A ValidatingPolicy with the switch is also written as a ValidatingAdmissionPolicy, which follows its changes. Functions that the API
// server does not have prevent it, with the reason in the status.
func TestNativeValidating(t *testing.T) {
	const policy = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-native}
spec:
  autogen: {validatingAdmissionPolicy: {enabled: true}}
  validationActions: [%s]
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  matchConditions: [{name: marked, expression: "object.metadata.name.startsWith('e2e-native')"}]
  validations: [{expression: "%s", message: a label is needed}]
`
	const expression, vap = "has(object.metadata.labels)", "validatingadmissionpolicy"
	cluster.Apply(t, fmt.Sprintf(policy, "Deny", expression))
	is(t, "true ", "validatingpolicy", "e2e-native", "-o", nativeStatus)
	is(t, "Fail ValidatingPolicy marked", vap, "vpol-e2e-native", "-o", "jsonpath={.spec.failurePolicy} {.metadata.ownerReferences[0].kind} {.spec.matchConditions[0].name}")
	denied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: e2e-native, namespace: default}}", "ValidatingAdmissionPolicy 'vpol-e2e-native' with binding 'vpol-e2e-native-binding' denied request: a label is needed")

	must(t, fmt.Sprintf(policy, "Audit", expression), "apply", "-f", "-")
	is(t, `["Audit"]`, vap+"binding", "vpol-e2e-native-binding", "-o", "jsonpath={.spec.validationActions}")

	must(t, fmt.Sprintf(policy, "Audit", "sha256('a') == 'b'"), "apply", "-f", "-")
	is(t, "", vap, "vpol-e2e-native", "--ignore-not-found", "-o", "name")
	is(t, "false skip generating ValidatingAdmissionPolicy: spec.validations[0].expression: undeclared reference to 'sha256' (in container '') (line 1, column 7 of the expression)",
		"validatingpolicy", "e2e-native", "-o", nativeStatus)

	must(t, strings.Replace(fmt.Sprintf(policy, "Deny", expression), "enabled: true", "enabled: false", 1), "apply", "-f", "-")
	is(t, "false skip generating ValidatingAdmissionPolicy: not enabled.", "validatingpolicy", "e2e-native", "-o", nativeStatus)
	denied(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: e2e-native, namespace: default}}", "Policy e2e-native failed: a label is needed")
}

// A MutatingPolicy with the switch is written as a MutatingAdmissionPolicy, and removed from our webhooks, so that its changes are made
// once. Without the switch our webhooks evaluate it again.
func TestNativeMutating(t *testing.T) {
	const policy = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: e2e-native}
spec:
  autogen: {mutatingAdmissionPolicy: {enabled: %t}}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  matchConditions: [{name: marked, expression: "object.metadata.name.startsWith('e2e-mutated')"}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/finalizers', value: object.metadata.?finalizers.orValue([]) + ['e2e.example/x']}]"}
`
	once := func() {
		t.Helper()
		eventually(t, func() error {
			out, err := kubectl(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: e2e-mutated, namespace: default}}", "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.finalizers}")
			if err == nil && out != `["e2e.example/x"]` {
				err = fmt.Errorf("the finalizers are %s", out)
			}
			return err
		})
	}
	webhooks := func(want bool) {
		t.Helper()
		eventually(t, func() error {
			out, err := kubectl(t, "", "get", "mutatingwebhookconfiguration", "kyverno-resource-mutating-webhook-cfg", "-o", "jsonpath={.webhooks[*].clientConfig.service.path}{.webhooks[*].clientConfig.url}")
			if err == nil && strings.Contains(out, "/e2e-native") != want {
				err = fmt.Errorf("the paths are %q", out)
			}
			return err
		})
	}
	apply(t, "mutatingpolicy", "e2e-native", fmt.Sprintf(policy, true))
	is(t, "true ", "mutatingpolicy", "e2e-native", "-o", nativeStatus)
	is(t, "mpol-e2e-native", "mutatingadmissionpolicybinding", "mpol-e2e-native-binding", "-o", "jsonpath={.spec.policyName}")
	webhooks(false)
	once()
	is(t, "true True", "mutatingpolicy", "e2e-native", "-o", "jsonpath={.status.conditionStatus.ready} {.status.conditionStatus.conditions[?(@.type=='WebhookConfigured')].status}")

	must(t, fmt.Sprintf(policy, false), "apply", "-f", "-")
	webhooks(true)
	is(t, "", "mutatingadmissionpolicy", "mpol-e2e-native", "--ignore-not-found", "-o", "name")
	is(t, "false skip generating MutatingAdmissionPolicy: not enabled.", "mutatingpolicy", "e2e-native", "-o", nativeStatus)
	once()
}

// A forged status with a MutatingAdmissionPolicy that does not exist is corrected, so that Ephor evaluates the policy again. An author
// cannot write the status with the policy, and a deleted MutatingAdmissionPolicy is restored.
func TestNativeForgedStatus(t *testing.T) {
	const policy = `
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: e2e-forged}
spec:
  autogen: {mutatingAdmissionPolicy: {enabled: true}}
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}
  matchConditions: [{name: marked, expression: "object.metadata.name == 'e2e-forged'"}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration: {expression: "Object{metadata: Object.metadata{labels: Object.metadata.labels{made: %s}}}"}
status: {generated: true, conditionStatus: {ready: true}}
`
	labelled := func(want string) {
		t.Helper()
		eventually(t, func() error {
			out, err := kubectl(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: e2e-forged, namespace: default}}", "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels.made}")
			if err == nil && out != want {
				err = fmt.Errorf("the label is %q", out)
			}
			return err
		})
	}
	// The API server does not have the function, so only Ephor can evaluate the policy.
	apply(t, "mutatingpolicy", "e2e-forged", fmt.Sprintf(policy, "sha256('a').substring(0, 8)"))
	refused := "false skip generating MutatingAdmissionPolicy: spec.mutations[0]"
	corrected := func() {
		t.Helper()
		eventually(t, func() error {
			got, err := kubectl(t, "", "get", "mutatingpolicy", "e2e-forged", "-o", nativeStatus)
			if err == nil && !strings.HasPrefix(got, refused) {
				err = fmt.Errorf("the status is %q", got)
			}
			return err
		})
		labelled("ca978112")
	}
	corrected()
	must(t, "", "patch", "mutatingpolicy", "e2e-forged", "--subresource=status", "--type=merge", "-p", `{"status":{"generated":true,"conditionStatus":{"message":""}}}`)
	corrected()

	must(t, fmt.Sprintf(policy, "'yes'"), "apply", "-f", "-")
	is(t, "true ", "mutatingpolicy", "e2e-forged", "-o", nativeStatus)
	labelled("yes")
	must(t, "", "delete", "mutatingadmissionpolicy", "mpol-e2e-forged")
	is(t, "MutatingPolicy", "mutatingadmissionpolicy", "mpol-e2e-forged", "-o", "jsonpath={.metadata.ownerReferences[0].kind}")
	labelled("yes")
}

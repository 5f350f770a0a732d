package cel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// auditPolicy makes the API server log the requests for ConfigMaps of one namespace.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, namespaces: [e2e-flags], resources: [{group: "", resources: [configmaps]}]}
- {level: None}
`

// annotating contains policies with audit annotations. The second one only warns, the third one only audits.
const annotating = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-annotates}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "object.metadata.name != 'denied'", message: the name is denied}]
  auditAnnotations:
  - {key: name, valueExpression: "'name ' + object.metadata.name"}
  - {key: "not/qualified", valueExpression: "'never there'"}
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-annotates-warns}
spec:
  validationActions: [Warn, Audit]
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "has(object.data)", message: data is missing}]
  auditAnnotations: [{key: name, valueExpression: "'warned'"}]
---
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-annotates-audits}
spec:
  validationActions: [Audit]
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "true"}]
  auditAnnotations: [{key: audited, valueExpression: "string(has(object.data))"}]
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: e2e-annotates}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': 'a'}}]"}}]
  auditAnnotations: [{key: labelled, valueExpression: "'a'"}]
`

// TestFlags contains the tests of flags and of the audit log, which need their own control plane.
func TestFlags(t *testing.T) {
	dir := t.TempDir()
	audit := filepath.Join(dir, "audit.log")
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	own := suite.New(t, suite.Options{Values: "e2e", APIServerFlags: []string{
		"--audit-policy-file=" + filepath.Join(dir, "policy.yaml"), "--audit-log-path=" + audit, "--audit-log-mode=blocking",
	}})
	own.Must(t, "", "create", "namespace", "e2e-flags") // its control plane ends with the test
	var replica *devcluster.Replica
	start := func(t *testing.T, args ...string) {
		t.Helper()
		var err error
		if replica, err = own.Ephor.StartAdmission(context.Background(), args...); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { suite.Stop(t, replica) })
	}

	// The audit event of a request has the annotations of all evaluated policies, whatever their actions.
	t.Run("AuditAnnotations", func(t *testing.T) {
		start(t)
		own.Must(t, annotating, "apply", "-f", "-")
		defer own.Must(t, "", "delete", "validatingpolicies,mutatingpolicies", "--all")
		suite.Eventually(t, func() error {
			_, err := own.Try(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: denied, namespace: e2e-flags}}", "create", "-f", "-")
			if err == nil || !strings.Contains(err.Error(), "the name is denied") || !strings.Contains(err.Error(), "Warning: Policy e2e-annotates-warns failed: data is missing") {
				return fmt.Errorf("it is not denied with a warning: %w", err)
			}
			return annotated(audit, "denied", map[string]string{
				"vpol.validate.kyverno.svc-fail/name": "name denied, warned", "mpol.validate.kyverno.svc-fail/labelled": "a", "vpol.validate.kyverno.svc-fail/audited": "false",
			})
		})
		own.Must(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: admitted, namespace: e2e-flags}, data: {a: b}}", "create", "-f", "-")
		suite.Eventually(t, func() error {
			return annotated(audit, "admitted", map[string]string{
				"vpol.validate.kyverno.svc-fail/name": "name admitted, warned", "mpol.validate.kyverno.svc-fail/labelled": "a", "vpol.validate.kyverno.svc-fail/audited": "true",
			})
		})
	})

	// With --forceFailurePolicyIgnore every failurePolicy is Ignore, in the webhooks and for conditions without a value.
	t.Run("ForceFailurePolicyIgnore", func(t *testing.T) {
		start(t, "--forceFailurePolicyIgnore")
		own.Must(t, `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-forced}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  matchConditions: [{name: no-value, expression: "image(object.metadata.name).tag() == object.none"}]
  validations: [{expression: "false"}]
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: e2e-forced}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[JSONPatch{op: 'remove', path: '/none'}]"}}]
`, "apply", "-f", "-")
		defer own.Must(t, "", "delete", "validatingpolicies,mutatingpolicies", "--all")
		suite.Eventually(t, func() error {
			out := own.Must(t, "", "get", "validatingwebhookconfigurations/kyverno-resource-validating-webhook-cfg", "mutatingwebhookconfigurations/kyverno-resource-mutating-webhook-cfg",
				"-o", `jsonpath={range .items[*].webhooks[*]}{.name} {.failurePolicy}{"\n"}{end}`)
			if want := "vpol.validate.kyverno.svc-ignore Ignore\nmpol.validate.kyverno.svc-ignore Ignore\n"; out != want {
				return fmt.Errorf("the webhooks are\n%s", out)
			}
			return nil
		})
		own.Must(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: forced, namespace: e2e-flags}}", "create", "--dry-run=server", "-f", "-")
		own.Must(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: forced, namespace: e2e-flags}}", "create", "-f", "-")
	})

	// With --autoUpdateWebhooks=false no webhook serves a policy: it is not enforced, its author gets a warning, and its status reports it.
	t.Run("FixedWebhooks", func(t *testing.T) {
		own.Must(t, "", "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-l", "webhook.kyverno.io/managed-by=kyverno")
		start(t, "--autoUpdateWebhooks=false")
		manifest := `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: e2e-fixed}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
  validations: [{expression: "false"}]
`
		suite.Eventually(t, func() error {
			out, err := own.Kubectl(t.Context(), []byte(manifest), "create", "--dry-run=server", "-f", "-", "--warnings-as-errors")
			if err == nil || !strings.Contains(err.Error(), "with --autoUpdateWebhooks=false the webhooks stay as they are") {
				return fmt.Errorf("there is no warning: %s %w", out, err)
			}
			return nil
		})
		own.Must(t, manifest, "create", "-f", "-")
		defer own.Must(t, "", "delete", "validatingpolicies", "--all")
		suite.Eventually(t, func() error {
			out, err := own.Try(t, "", "get", "validatingpolicy", "e2e-fixed", "-o", "jsonpath={.status.conditionStatus.ready} {.status.conditionStatus.conditions[?(@.type=='WebhookConfigured')].message}")
			if err == nil && !strings.HasPrefix(out, "false Policy is not configured in the webhook.\nthe paths of its webhooks name the policy") {
				err = fmt.Errorf("the status has %q", out)
			}
			return err
		})
		own.Must(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: fixed, namespace: e2e-flags}}", "create", "-f", "-")
	})
}

// annotated returns an error unless the audit events for a ConfigMap have exactly these annotations of our webhooks.
func annotated(log, name string, want map[string]string) error {
	text, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	var got map[string]string
	for line := range bytes.Lines(text) {
		var event struct {
			Verb        string
			ObjectRef   struct{ Name string }
			Annotations map[string]string
		}
		if err := json.Unmarshal(line, &event); err != nil || event.Verb != "create" {
			continue // an incomplete line
		}
		if event.ObjectRef.Name != name && event.ObjectRef.Name != "" {
			continue
		}
		got = map[string]string{}
		for key, text := range event.Annotations {
			if strings.Contains(key, ".kyverno.svc") {
				got[key] = text
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("the last audit event has the annotations %v, not %v", got, want)
	}
	return nil
}

package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// arrived contains policies that Kyverno left in the cluster.
const arrived = `
apiVersion: policies.kyverno.io/v1
kind: ValidatingPolicy
metadata: {name: arrived}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  matchConditions: [{name: here, expression: "object.metadata.namespace.startsWith('e2e-arrived')"}]
  validations: [{expression: "has(object.data)", message: data is missing}]
---
apiVersion: policies.kyverno.io/v1
kind: NamespacedValidatingPolicy
metadata: {name: arrived, namespace: e2e-arrived}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets]}
  validations: [{expression: "has(object.data)", message: data is missing}]
---
apiVersion: policies.kyverno.io/v1
kind: MutatingPolicy
metadata: {name: arrived}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}
  matchConditions: [{name: here, expression: "object.metadata.namespace.startsWith('e2e-arrived')"}]
  mutations:
  - patchType: JSONPatch
    jsonPatch: {expression: "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'team': 'a'}}]"}
`

// leftWebhooks are Kyverno's remaining webhook configurations: the first verb is the certificate authority, the second the port.
const leftWebhooks = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kyverno-resource-validating-webhook-cfg, labels: {webhook.kyverno.io/managed-by: kyverno}}
webhooks:
- name: vpol.validate.kyverno.svc-fail-finegrained-arrived
  clientConfig: {caBundle: %[1]s, service: {namespace: kyverno, name: kyverno-svc, path: /vpol/arrived, port: %[2]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: "*"}]
  matchConditions: [{name: here, expression: "object.metadata.namespace.startsWith('e2e-arrived')"}]
  sideEffects: NoneOnDryRun
  admissionReviewVersions: [v1]
- name: nvpol.validate.kyverno.svc-fail
  clientConfig: {caBundle: %[1]s, service: {namespace: kyverno, name: kyverno-svc, path: /nvpol/arrived, port: %[2]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [secrets], scope: "*"}]
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: e2e-arrived}}
  sideEffects: NoneOnDryRun
  admissionReviewVersions: [v1]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: kyverno-resource-mutating-webhook-cfg, labels: {webhook.kyverno.io/managed-by: kyverno}}
webhooks:
- name: mpol.validate.kyverno.svc-fail-finegrained-arrived
  clientConfig: {caBundle: %[1]s, service: {namespace: kyverno, name: kyverno-svc, path: /mpol/arrived, port: %[2]s}}
  rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps], scope: "*"}]
  matchConditions: [{name: here, expression: "object.metadata.namespace.startsWith('e2e-arrived')"}]
  sideEffects: NoneOnDryRun
  admissionReviewVersions: [v1]
`

// Policies that exist before Ephor starts are enforced from the first answered request: no request bypasses them, neither while Kyverno's
// webhook configurations exist, whose plain paths Ephor answers, nor while Ephor replaces them.
func TestPoliciesOfKyverno(t *testing.T) {
	cluster.Namespace(t, "e2e-arrived")
	first := func(template string) string {
		return must(t, "", "get", "validatingwebhookconfiguration", "kyverno-policy-validating-webhook-cfg", "-o", "jsonpath="+template)
	}
	ca, port := first("{.webhooks[0].clientConfig.caBundle}"), first("{.webhooks[0].clientConfig.service.port}")
	suite.Stop(t, admission)
	t.Cleanup(func() {
		if suite.Alive(admission) != nil {
			if err := startAdmission(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
	must(t, "", "delete", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-l", "webhook.kyverno.io/managed-by=kyverno")
	cluster.Apply(t, arrived)
	must(t, fmt.Sprintf(leftWebhooks, ca, port), "create", "-f", "-")

	started := make(chan error, 1)
	go func() { started <- startAdmission(context.Background()) }()
	seen := map[string]int{}
	ask := func() {
		for _, c := range []struct{ manifest, refusal string }{
			{"{apiVersion: v1, kind: ConfigMap, metadata: {name: bad, namespace: e2e-arrived}}", "Policy arrived failed: data is missing"},
			{"{apiVersion: v1, kind: Secret, metadata: {name: bad, namespace: e2e-arrived}}", "Policy arrived failed: data is missing"},
			{"{apiVersion: v1, kind: ConfigMap, metadata: {name: good, namespace: e2e-arrived}, data: {a: b}}", ""},
		} {
			out, err := kubectl(t, c.manifest, "create", "--dry-run=server", "-f", "-", "-o", "jsonpath={.metadata.labels.team}")
			switch {
			case err == nil && c.refusal != "":
				t.Errorf("a request that a policy denies is admitted: %s", c.manifest)
			case err == nil && out != "a":
				t.Errorf("a request passes the mutation: the label is %q", out)
			case err == nil:
				seen["mutated"]++
			case c.refusal != "" && strings.Contains(err.Error(), c.refusal):
				seen["denied"]++
			case strings.Contains(err.Error(), "failed calling webhook"):
				seen["no answer"]++
			default:
				t.Errorf("another refusal: %v", err)
			}
		}
	}
	for begun := time.Now(); ; {
		ask()
		select {
		case err := <-started:
			if err != nil {
				t.Fatal(err)
			}
			started = nil
		default:
		}
		if started == nil && plainPaths(t) == 0 {
			break
		}
		if time.Since(begun) > devcluster.Patience() {
			t.Fatalf("plain paths stay in the configurations; answers: %v", seen)
		}
	}
	for range 5 {
		ask()
	}
	if seen["denied"] == 0 || seen["mutated"] == 0 {
		t.Errorf("nothing was evaluated: %v", seen)
	}
	t.Logf("answers: %v", seen)
}

var secretSegment = regexp.MustCompile(`^/[0-9a-f]{64}/`)

// plainPaths counts the webhooks whose paths have no secret segment.
func plainPaths(t *testing.T) (n int) {
	t.Helper()
	var list struct {
		Items []struct {
			Webhooks []struct {
				ClientConfig struct{ Service struct{ Path string } }
			}
		}
	}
	if err := json.Unmarshal([]byte(must(t, "", "get", "validatingwebhookconfigurations,mutatingwebhookconfigurations", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		for _, w := range item.Webhooks {
			if !secretSegment.MatchString(w.ClientConfig.Service.Path) {
				n++
			}
		}
	}
	return n
}

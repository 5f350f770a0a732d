package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

const globalEntries = `
apiVersion: kyverno.io/v2alpha1
kind: GlobalContextEntry
metadata: {name: e2e-resources}
spec:
  kubernetesResource: {version: v1, resource: configmaps, namespace: e2e-global}
  projections: [{name: owners, jmesPath: "[?metadata.labels.owner].metadata.name"}]
---
apiVersion: kyverno.io/v2
kind: GlobalContextEntry
metadata: {name: e2e-call}
spec:
  apiCall: {urlPath: /api/v1/namespaces/e2e-global/configmaps, refreshInterval: 1s}
  projections: [{name: count, jmesPath: "items[?metadata.labels.owner] | length(@)"}]
---
apiVersion: kyverno.io/v2beta1
kind: GlobalContextEntry
metadata: {name: e2e-forbidden}
spec:
  apiCall: {urlPath: /api/v1/namespaces/e2e-global/secrets, retryLimit: 1}
`

const globalPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-global}
spec:
  rules:
  - name: resources
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-global], names: [resources-*]}}]}
    context: [{name: owners, globalReference: {name: e2e-resources.owners}}]
    validate: {failureAction: Enforce, message: "owners are {{ owners }}", deny: {conditions: {all: [{key: "{{ length(owners) }}", operator: GreaterThan, value: 0}]}}}
  - name: call
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-global], names: [call-*]}}]}
    context: [{name: count, globalReference: {name: e2e-call.count}}]
    validate: {failureAction: Enforce, message: "there are {{ count }} owners", deny: {conditions: {all: [{key: "{{ count }}", operator: GreaterThan, value: 0}]}}}
  - name: forbidden
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-global], names: [forbidden-*]}}]}
    context: [{name: data, globalReference: {name: e2e-forbidden}}]
    validate: {failureAction: Enforce, message: m, deny: {conditions: {all: [{key: "{{ data }}", operator: Equals, value: x}]}}}
  - name: missing
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-global], names: [missing-*]}}]}
    context: [{name: data, globalReference: {name: e2e-missing}}]
    validate: {failureAction: Enforce, message: m, deny: {conditions: {all: [{key: "{{ data }}", operator: Equals, value: x}]}}}
`

// Policies read the data of global context entries, which follow the cluster. A missing entry, or one without data, is an error, and the
// entry's status and an event report the reason.
func TestGlobalContext(t *testing.T) {
	cluster.Namespace(t, "e2e-global")
	t.Cleanup(func() { _, _ = cluster.Kubectl(context.Background(), nil, "delete", "globalcontextentry", "--all") })
	bad := strings.Replace(globalEntries, "jmesPath: \"[?", "jmesPath: \"[[?", 1)
	eventually(t, func() error {
		_, err := kubectl(t, bad, "create", "-f", "-", "--dry-run=server")
		if text, ok := refused(err); !ok || !strings.Contains(text, "failed to parse JMESPath") {
			return fmt.Errorf("not refused: %v", err)
		}
		return nil
	})
	must(t, globalEntries, "create", "-f", "-")
	applyPolicies(t, policyFile(t, globalPolicy))
	must(t, "", "wait", "--for=condition=Ready", "globalcontextentry/e2e-resources", "globalcontextentry/e2e-call")
	create := func(name string) (refusal string, err error) {
		_, err = kubectl(t, "", "create", "configmap", name, "-n", "e2e-global", "--dry-run=server")
		if text, ok := refused(err); ok {
			return text, nil
		}
		return "", err
	}
	expect := func(name, want string) {
		t.Helper()
		eventually(t, func() error {
			text, err := create(name)
			if err != nil || !strings.Contains(text, want) || want == "" && text != "" {
				return fmt.Errorf("%s: %q, %v, want %q", name, text, err, want)
			}
			return nil
		})
	}
	expect("forbidden-1", "permission denied")
	expect("missing-1", "there is no GlobalContextEntry e2e-missing")
	expect("resources-1", "")
	expect("call-1", "")
	must(t, "", "create", "configmap", "first", "-n", "e2e-global")
	must(t, "", "label", "configmap", "first", "-n", "e2e-global", "owner=me")
	expect("resources-1", `owners are ["first"]`)
	expect("call-1", "there are 1 owners")
	must(t, "", "delete", "configmap", "first", "-n", "e2e-global")
	expect("resources-1", "")
	expect("call-1", "")

	if out := must(t, "", "get", "globalcontextentry", "e2e-call", "-o", "jsonpath={.status.lastRefreshTime}"); out == "" {
		t.Error("the time of the last refresh is not in the status")
	}
	if out := must(t, "", "get", "globalcontextentry", "e2e-forbidden", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`); !strings.Contains(out, "permission denied") {
		t.Errorf("the status says %q", out)
	}
	eventually(t, func() error {
		out, err := kubectl(t, "", "get", "events", "-n", "default", "-o", `jsonpath={range .items[?(@.involvedObject.name=="e2e-forbidden")]}{.reason} {.action} {.reportingComponent}: {.message}{"\n"}{end}`)
		if err != nil || !strings.Contains(out, "PolicyError Retrying globalcontext-controller: ") || !strings.Contains(out, "permission denied") {
			return fmt.Errorf("events %q, %v", out, err)
		}
		return nil
	})
	must(t, "", "delete", "globalcontextentry", "e2e-resources")
	expect("resources-1", "there is no GlobalContextEntry e2e-resources")
}

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

const operationsPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-operations}
spec:
  background: false
  rules:
  - name: exec
    match: {any: [{resources: {kinds: [Pod/exec], namespaces: [e2e-operations]}}]}
    validate: {failureAction: Enforce, message: "no {{ request.operation }} of {{ request.subResource }} to {{ request.name }}: {{ join(' ', request.object.command) }}", deny: {}}
  - name: scale
    match: {any: [{resources: {kinds: [Deployment/scale], namespaces: [e2e-operations]}}]}
    validate:
      failureAction: Enforce
      message: "from {{ request.oldObject.spec.replicas }} to {{ request.object.spec.replicas }}"
      deny: {conditions: {any: [{key: "{{ request.object.spec.replicas }}", operator: GreaterThan, value: 3}]}}
  - name: status
    match: {any: [{resources: {kinds: [Pod/status], namespaces: [e2e-operations]}}]}
    validate:
      failureAction: Enforce
      message: "no Pod fails here"
      pattern: {status: {phase: "!Failed"}}
  - name: delete
    match: {any: [{resources: {kinds: [ConfigMap], operations: [DELETE], selector: {matchLabels: {keep: "yes"}}, namespaces: [e2e-operations]}}]}
    validate: {failureAction: Enforce, message: "kept, since {{ request.oldObject.data.why }}", deny: {}}
  - name: immutable
    match: {any: [{resources: {kinds: [ConfigMap], operations: [UPDATE], namespaces: [e2e-operations]}}]}
    validate:
      failureAction: Enforce
      message: "it was {{ request.oldObject.data.why }}"
      deny: {conditions: {any: [{key: "{{ request.object.data.why }}", operator: NotEquals, value: "{{ request.oldObject.data.why }}"}]}}
`

// Policies are evaluated for each operation that they name, with the old object: DELETE, UPDATE, CONNECT and writes of subresources, also in
// dry runs.
func TestOperations(t *testing.T) {
	const ns = "e2e-operations"
	must(t, `
{apiVersion: v1, kind: Namespace, metadata: {name: e2e-operations}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: e2e-operations}}
---
{apiVersion: v1, kind: Pod, metadata: {name: pod, namespace: e2e-operations}, spec: {containers: [{name: c, image: x}]}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: e2e-operations}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: x}]}}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, namespace: e2e-operations, labels: {keep: "yes"}}, data: {why: it is dear}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: free, namespace: e2e-operations}, data: {why: nobody knows}}
`, "apply", "--server-side", "--force-conflicts", "-f", "-")
	t.Cleanup(func() { cluster.Kubectl(context.Background(), nil, "delete", "namespace", ns, "--wait=false") })
	applyPolicies(t, policyFile(t, operationsPolicy))
	is := func(what, want string, args ...string) {
		t.Helper()
		eventually(t, func() error {
			_, err := kubectl(t, "", append([]string{"-n", ns}, args...)...)
			if want == "" {
				return err
			}
			text, ok := refused(err)
			if !ok || !strings.Contains(text, what+": "+want) {
				return fmt.Errorf("%s: not refused with %q: %v", what, want, err)
			}
			return nil
		})
	}
	is("delete", "kept, since it is dear", "delete", "configmap", "kept")
	is("delete", "kept, since it is dear", "delete", "configmap", "kept", "--dry-run=server")
	is("immutable", "it was it is dear", "patch", "configmap", "kept", "-p", `{"data":{"why":"x"}}`)
	is("immutable", "", "label", "configmap", "kept", "touched=yes")
	is("delete", "", "delete", "configmap", "free")
	is("scale", "from 1 to 4", "scale", "deployment", "web", "--replicas=4")
	is("scale", "", "scale", "deployment", "web", "--replicas=2")
	is("scale", "from 2 to 5", "scale", "deployment", "web", "--replicas=5")
	is("exec", "'no CONNECT of exec to pod: ls -l'", "exec", "pod", "--", "ls", "-l")
	is("status", "'validation error: no Pod fails here", "patch", "pod", "pod", "--subresource=status", "-p", `{"status":{"phase":"Failed"}}`)
	is("status", "", "patch", "pod", "pod", "--subresource=status", "-p", `{"status":{"message":"waiting"}}`)
}

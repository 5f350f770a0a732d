package e2e

import (
	"fmt"
	"strings"
	"testing"
)

const celPolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: e2e-cel}
spec:
  webhookConfiguration:
    matchConditions:
    - {name: not-ours, expression: "!object.metadata.name.startsWith('unmatched')"}
  rules:
  - name: expressions
    match: {any: [{resources: {kinds: [ConfigMap], namespaces: [e2e-cel], operations: [CREATE]}}]}
    exclude: {any: [{resources: {names: [limits, kube-root-ca.crt]}}]}
    validate:
      failureAction: Enforce
      cel:
        paramKind: {apiVersion: v1, kind: ConfigMap}
        paramRef: {name: limits, namespace: e2e-cel, parameterNotFoundAction: Deny}
        expressions:
        - expression: "object.metadata.name.startsWith(params.data.prefix)"
          messageExpression: "request.userInfo.username + ' may only use ' + params.data.prefix"
        - expression: "namespaceObject.metadata.labels.team == 'blue'"
          message: "only for the team blue"
        - expression: "authorizer.group('').resource('secrets').namespace('kube-system').check('get').allowed()"
          message: "only for administrators"
`

// Expressions read parameters, the namespace and the requester's rights, with the permissions of the controller.
func TestCEL(t *testing.T) {
	cluster.Namespace(t, "e2e-cel")
	must(t, "", "label", "namespace", "e2e-cel", "team=blue")
	applyPolicies(t, policyFile(t, celPolicy))
	create := func(name string) error {
		_, err := kubectl(t, "", "create", "configmap", name, "-n", "e2e-cel", "--dry-run=server")
		return err
	}
	refusedWith := func(name, want string) {
		t.Helper()
		eventually(t, func() error {
			err := create(name)
			if text, ok := refused(err); !ok || !strings.Contains(text, want) {
				return fmt.Errorf("%s is not refused with %q: %v", name, want, err)
			}
			return nil
		})
	}
	refusedWith("ok-1", "error in parameterized resource: no params found for policy binding with `Deny` parameterNotFoundAction")
	must(t, "", "create", "configmap", "limits", "-n", "e2e-cel", "--from-literal=prefix=ok-")
	eventually(t, func() error { return create("ok-1") })
	refusedWith("other", "may only use ok-")
	if err := create("unmatched"); err != nil {
		t.Errorf("the conditions of the webhook do not hold, and it is refused: %v", err)
	}
	must(t, "", "label", "namespace", "e2e-cel", "team=red", "--overwrite")
	refusedWith("ok-1", "only for the team blue")
}

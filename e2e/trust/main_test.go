package trust

import (
	"context"
	"os"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
	"ephor.invalid/ephor/internal/devcluster"
)

// One control plane with one admission controller serves all tests of the package.
var (
	cluster   suite.Cluster
	admission *devcluster.Replica
)

// mallory is the attacker, and the namespace in which the attacker has the ClusterRole admin.
const mallory = "mallory"

const setup = `
apiVersion: v1
kind: Namespace
metadata: {name: mallory}
---
apiVersion: v1
kind: Namespace
metadata: {name: victim}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: mallory, namespace: mallory}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: mallory}]
---
# What the policies of the tests generate, besides ConfigMaps.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: trust-tests, labels: {rbac.kyverno.io/aggregate-to-background-controller: "true"}}
rules:
- {apiGroups: [""], resources: [secrets, namespaces], verbs: [get, list, create, update, delete]}
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, list, create, update, delete]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [rolebindings], verbs: [get, list, create, update, delete]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [bind], resourceNames: [admin]}
`

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Values: "standard", Audited: true, Setup: func(ctx context.Context) error {
		if _, err := cluster.Kubectl(ctx, []byte(setup), "apply", "-f", "-"); err != nil {
			return err
		}
		var err error
		admission, err = startAdmission(ctx)
		return err
	}}))
}

// startAdmission starts the admission controller of all tests.
func startAdmission(ctx context.Context) (*devcluster.Replica, error) {
	return cluster.Ephor.StartAdmission(ctx, "--webhookPathOverlap=5s") // a minute is long for a test
}

// asMallory runs kubectl as mallory and returns its output, and the error if the request was denied.
func asMallory(t testing.TB, stdin string, args ...string) (string, error) {
	t.Helper()
	return cluster.Try(t, stdin, append(args, "--as="+mallory, "-n", mallory)...)
}

// removes deletes an object after a test.
func removes(t testing.TB, kind, name, namespace string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := cluster.Try(t, "", "delete", kind, name, "-n", namespace, "--ignore-not-found", "--wait=false"); err != nil {
			t.Error(err)
		}
	})
}

// TestMalloryIsConfined checks the premise of all other tests: mallory has the rights of the role admin in one namespace, and none in
// others.
func TestMalloryIsConfined(t *testing.T) {
	suite.Eventually(t, func() error { // the role admin is aggregated some time after the start
		_, err := asMallory(t, "", "create", "configmap", "mine", "--dry-run=server")
		return err
	})
	if out, err := cluster.Try(t, "", "get", "secrets", "-n", "victim", "--as="+mallory); err == nil {
		t.Errorf("mallory reads Secrets of another namespace: %s", out)
	}
}

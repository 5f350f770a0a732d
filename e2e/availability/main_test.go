package availability

import (
	"context"
	"os"
	"testing"

	"ephor.invalid/ephor/e2e/suite"
)

// One control plane serves all tests of the package. Each test starts the replicas that it needs.
var cluster suite.Cluster

const namespace = suite.Namespace

// Requests are not audited in this package: a test runs all controllers in one process with the account of admission, but
// docs/security/rbac.md lists the rights of each controller for its own account.
func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, suite.Options{Setup: func(ctx context.Context) error {
		_, err := cluster.Kubectl(ctx, []byte(suite.RequireTeam), "apply", "-f", "-")
		return err
	}}))
}

// load sends requests continuously until the returned function is called. It fails the test if a clean object was denied, a violating one
// admitted, or a review not answered.
func load(t *testing.T, clients int) (finish func() (asked int64)) {
	t.Helper()
	end := cluster.Load(t, clients)
	return func() int64 {
		c := end()
		if c.Failed > 0 {
			t.Errorf("%d failures of %d objects that were tried", c.Failed, c.Asked)
		}
		return c.Asked
	}
}

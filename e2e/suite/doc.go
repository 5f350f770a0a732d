// Package suite contains what the tests on a real API server share: a control plane with Ephor, kubectl, waiting, checks of replicas' logs,
// and a policy that load tests continuously.
//
//	var cluster suite.Cluster
//
//	func TestMain(m *testing.M) { os.Exit(cluster.Main(m, suite.Options{})) }
//
//	func TestSomething(t *testing.T) {
//		cluster.Apply(t, suite.RequireTeam)
//		cluster.Start(t, devcluster.Admission)
//		suite.Until(t, "the policy is enforced", func() error { return cluster.Enforced(t.Context()) })
//	}
//
// Only tests import it: those below e2e/ share one control plane for each package, those of soak/ start one for each test. Helpers of a
// single package belong in that package.
package suite

// Package suite is what the tests on a real API server share: a control plane with Ephor on it, kubectl, waiting, what a
// replica's log says, and a policy whose enforcement can be asked for all the time.
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
// Only tests import it: those below e2e/ share one control plane for each package, those of soak/ start one for each test.
// What only one package asks for stays there.
package suite

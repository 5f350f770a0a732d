package observe

import "context"

// leftOut is a number of policies whose webhooks are left out, by scope.
type leftOut struct{ clusterWide, namespaced int }

// LeftOut sets the number of policies whose webhooks are left out. The numbers are reported until ctx is done, when this replica no longer
// writes webhooks.
func (m *Metrics) LeftOut(ctx context.Context, clusterWide, namespaced int) {
	if m != nil {
		m.leftOut.set(ctx, leftOut{clusterWide, namespaced})
	}
}

func (m *Metrics) collectLeftOut(set func(float64, ...string)) {
	if n, ok := m.leftOut.load(); ok {
		set(float64(n.clusterWide), "cluster")
		set(float64(n.namespaced), "namespace")
	}
}

package observe

// LeftOut sets the function that returns the number of policies whose webhooks are left out; known is false while this replica does not write
// webhooks.
func (m *Metrics) LeftOut(count func() (clusterWide, namespaced int, known bool)) {
	if m != nil {
		m.leftOut.Store(&count)
	}
}

func (m *Metrics) collectLeftOut(set func(float64, ...string)) {
	count := m.leftOut.Load()
	if count == nil {
		return
	}
	if clusterWide, namespaced, known := (*count)(); known {
		set(float64(clusterWide), "cluster")
		set(float64(namespaced), "namespace")
	}
}

package observe

// Members sets the function that returns the number of replicas that share the work of a controller. It returns 0 while this replica must
// not work.
func (m *Metrics) Members(controller string, count func() int) {
	if m != nil {
		m.members.Store(controller, count)
	}
}

func (m *Metrics) collectMembers(set func(float64, ...string)) {
	m.members.Range(func(controller, count any) bool {
		set(float64(count.(func() int)()), controller.(string))
		return true
	})
}

package observe

// Members sets the function that counts the replicas that share the work of a controller; 0 while this one may not work itself.
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

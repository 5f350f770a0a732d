package observe

// Unlistable sets the function that lists the kinds, such as Deployment.apps, that policies name but scans may not list.
func (m *Metrics) Unlistable(list func() []string) {
	if m != nil {
		m.unlistable.Store(&list)
	}
}

func (m *Metrics) collectUnlistable(set func(float64, ...string)) {
	if list := m.unlistable.Load(); list != nil {
		for _, kind := range (*list)() {
			set(1, kind)
		}
	}
}

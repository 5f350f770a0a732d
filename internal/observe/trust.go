package observe

import (
	"strconv"
	"time"
)

// TrustRoots sets the function that lists the trust roots in use for images.
func (m *Metrics) TrustRoots(each func(report func(source string, confined bool, updated time.Time, failures int))) {
	if m != nil {
		m.trustRoots.Store(&each)
	}
}

// collectTrust reports the time of the last update of each root. A root without an update has no series.
func (m *Metrics) collectTrust(set func(float64, ...string)) {
	m.eachTrust(func(source string, confined bool, updated time.Time, _ int) {
		if !updated.IsZero() {
			set(float64(updated.Unix()), source, strconv.FormatBool(confined))
		}
	})
}

func (m *Metrics) collectTrustFailures(set func(float64, ...string)) {
	m.eachTrust(func(source string, confined bool, _ time.Time, failures int) {
		set(float64(failures), source, strconv.FormatBool(confined))
	})
}

func (m *Metrics) eachTrust(report func(string, bool, time.Time, int)) {
	if each := m.trustRoots.Load(); each != nil {
		(*each)(report)
	}
}

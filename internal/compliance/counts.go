package compliance

// Counts counts results.
type Counts struct {
	Pass  int `json:"pass"`
	Fail  int `json:"fail"`
	Warn  int `json:"warn"`
	Error int `json:"error"`
	Skip  int `json:"skip"`
}

// Add counts one result.
func (c *Counts) Add(s Status) { *c.of(s)++ }

// Of returns the number of results with the status.
func (c Counts) Of(s Status) int { return *c.of(s) }

// of returns the counter for a status. An unknown status counts as an error, so that no result is lost.
func (c *Counts) of(s Status) *int {
	switch s {
	case Pass:
		return &c.Pass
	case Fail:
		return &c.Fail
	case Warn:
		return &c.Warn
	case Skip:
		return &c.Skip
	}
	return &c.Error
}

func (c *Counts) merge(o Counts) {
	for _, s := range Statuses {
		*c.of(s) += o.Of(s)
	}
}

// Evaluated returns the number of results that were not skipped.
func (c Counts) Evaluated() int { return c.Pass + c.Fail + c.Warn + c.Error }

// Share returns the percentage of evaluated results that pass; ok is false if there are none.
func (c Counts) Share() (percent float64, ok bool) {
	if c.Evaluated() == 0 {
		return 0, false
	}
	return 100 * float64(c.Pass) / float64(c.Evaluated()), true
}

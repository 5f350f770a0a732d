package dashboard

import (
	"slices"

	"ephor.invalid/ephor/internal/compliance"
)

// status is an index into compliance.Statuses.
type status uint8

const statuses = 5

func statusOf(s compliance.Status) status { return status(slices.Index(compliance.Statuses, s)) }

func (s status) word() compliance.Status { return compliance.Statuses[s] }

// tally counts results by status.
type tally [statuses]int

func (t tally) counts() (c compliance.Counts) {
	for s, n := range t {
		switch status(s).word() {
		case compliance.Pass:
			c.Pass = n
		case compliance.Fail:
			c.Fail = n
		case compliance.Warn:
			c.Warn = n
		case compliance.Error:
			c.Error = n
		case compliance.Skip:
			c.Skip = n
		}
	}
	return c
}

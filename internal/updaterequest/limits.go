package updaterequest

import (
	"fmt"
)

const (
	// Batch is the number of triggers in one UpdateRequest that no admission request asked for.
	Batch = 100
	// Attempts bounds how often a write is retried after conflicts.
	Attempts = 5
)

// ThresholdError is why no UpdateRequest is added. Its text is the same as long as it lasts, so that its events are one.
type ThresholdError struct{ Limit int }

func (e ThresholdError) Error() string {
	return fmt.Sprintf("as many UpdateRequests as updateRequestThreshold allows (%d) wait to be carried out", e.Limit)
}

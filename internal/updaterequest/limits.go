package updaterequest

import (
	"fmt"
)

const (
	// Batch is the number of triggers in one UpdateRequest that was not created for an admission request.
	Batch = 100
	// Attempts bounds how often a write is retried after conflicts.
	Attempts = 5
)

// ThresholdError is the reason why no UpdateRequest is added. Its text is constant, so that its events are aggregated.
type ThresholdError struct{ Limit int }

func (e ThresholdError) Error() string {
	return fmt.Sprintf("as many UpdateRequests as updateRequestThreshold allows (%d) wait for execution", e.Limit)
}

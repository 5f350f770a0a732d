package updaterequest

import (
	"fmt"
)

const (
	// Batch is the number of triggers in one UpdateRequest that was not created for an admission request.
	Batch = 100
	// Attempts is the maximum number of attempts for a write that has conflicts.
	Attempts = 5
)

// ThresholdError means that no UpdateRequest is added because the limit is reached. Its text is constant, so that events with it are
// aggregated.
type ThresholdError struct{ Limit int }

func (e ThresholdError) Error() string {
	return fmt.Sprintf("as many UpdateRequests as updateRequestThreshold allows (%d) wait for execution", e.Limit)
}

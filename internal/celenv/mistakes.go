package celenv

import "fmt"

// EvaluationError means that an expression has no value because a key is missing or types do not match. Failed lookups,
// exceeded budgets and cancelled evaluations are other errors.
type EvaluationError struct {
	Expression string
	Err        error
}

func (e *EvaluationError) Error() string {
	return fmt.Sprintf("expression '%v' resulted in error: %v", e.Expression, e.Err)
}

// Unwrap returns the library's error.
func (e *EvaluationError) Unwrap() error { return e.Err }

// UnansweredError means that an expression has no value because a query to the World has no answer.
type UnansweredError struct {
	Question string // the query that failed
	Err      error
}

func (e *UnansweredError) Error() string { return e.Question + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UnansweredError) Unwrap() error { return e.Err }

// MistakeError means that a function was called in an invalid way.
type MistakeError struct{ Reason string }

func (e *MistakeError) Error() string { return e.Reason }

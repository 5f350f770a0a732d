package policy

import (
	"context"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
)

// Call is one evaluation of a rule, with the request and the resources that the evaluation may use. It belongs to one goroutine, and
// ends when Eval returns. It is independent of the policy language: each language derives the variables of its expressions from it.
type Call struct {
	// Env holds the meter, the world within the reach of the Program, and the trace.
	*evalenv.Env
	Request *Request
	Program *Program
	Rule    *Rule
	// Plan makes rules with deferred work return the exact changes, which may require reads of the World. Without it, rules only report
	// that there is work.
	Plan bool
	// Stages are the stages of the rule that are evaluated; zero means all of them. A verifyImages rule does different work in a
	// validating review than in a mutating one.
	Stages Stage
	// Shared is data that a language stores in one rule for the next rules of the same evaluation; nil at first.
	Shared any
	// Exceptions is what only the exceptions of the rule need; nil if their mistakes are discarded and nothing is charged. It is apart, since a
	// Call is copied for each rule.
	Exceptions *ForExceptions
}

// ForExceptions is the part of a Call for the exceptions of its rule.
type ForExceptions struct {
	// Owners are the live controllers whose templates give the object of the request, as requests: exceptions that cover workloads apply where
	// they match one of them. Audits: exceptions that only change the action apply, too. Both are set only after a failure.
	Owners []*Request
	Audits bool
	// Pace returns the pacer of the namespace of an exception, for what the exception costs; nil for an exception that is not charged. The
	// function is nil where nothing is charged.
	Pace func(*Exception, *Request) budget.Pacer
	// Errors collects the exceptions of the rule that could not be evaluated, for the Outcome; nil to discard them.
	Errors *[]ExceptionError
}

// ForExceptions returns the part of the Call for exceptions.
func (c *Call) ForExceptions() ForExceptions {
	if c.Exceptions == nil {
		return ForExceptions{}
	}
	return *c.Exceptions
}

// NotEvaluated records that an exception of the rule could not be evaluated.
func (c *Call) NotEvaluated(e *Exception, err error) {
	if to := c.ForExceptions().Errors; to != nil {
		*to = append(*to, ExceptionError{Exception: e, Program: c.Program, Rule: c.Rule, Message: err.Error()})
	}
}

// Context returns the context of the evaluation.
func (c *Call) Context() context.Context { return c.Meter.Context() }

// Variables are the named values that expressions of a rule can read.
type Variables interface {
	// Field returns the value of a name. ok is false if there is none. err is the reason why it could not be loaded.
	Field(name string) (v any, ok bool, err error)
	// Value returns all variables.
	Value() (any, error)
}

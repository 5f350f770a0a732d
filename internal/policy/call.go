package policy

import (
	"context"

	"github.com/ephor-dev/ephor/internal/evalenv"
)

// Call is one evaluation of a rule: of which rule, on which request, and what it may use. It belongs to one goroutine, and
// ends when Eval returns. No language has a part in it: each makes what its expressions see from a Call.
type Call struct {
	// Env holds the meter, the world as far as the Program reaches, and the trace.
	*evalenv.Env
	Request *Request
	Program *Program
	Rule    *Rule
	// Plan asks rules for deferred work to say exactly what is to be done, which may cost reads of the world; without it
	// they only say that there is something to do.
	Plan bool
	// Stages are those of the rule's stages that are being evaluated; zero stands for all of them. A verifyImages rule
	// does other work in a validating review than in a mutating one.
	Stages Stage
}

// Context is the context of the evaluation, which ends it in time.
func (c *Call) Context() context.Context { return c.Meter.Context() }

// Variables are what the expressions of a rule see by name, in a language that has names for that.
type Variables interface {
	// Field returns the value of a name; ok is false when there is none; err says why it could not be loaded.
	Field(name string) (v any, ok bool, err error)
	// Value returns all of them.
	Value() (any, error)
}

package policy

import (
	"context"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/value"
)

// Exception exempts resources from rules. It is immutable after Compile and shared by all goroutines.
type Exception struct {
	Namespace, Name string // Namespace may be empty on the command line
	UID             string
	Generation      int64
	ResourceVersion string
	// Background: the exception also holds where an existing object is scanned.
	Background bool
	// Kinds are the kinds of policies that it can be for.
	Kinds []string
	// Rules are the rules that the exception is for.
	Rules []ExceptionRules
	// Match reports whether the exception is for the object of the request. An error means that it is not known.
	Match func(ctx context.Context, r *Request) (bool, error)
	// Conditions reports whether its conditions hold, with the variables of the rule; nil when it has none.
	Conditions func(c *Call, variables Variables) (bool, error)
	// Needs says what Match and Conditions look at, Reads what of the request's object; nil: anything.
	Needs Needs
	Reads *value.Fields
	// Relaxes: the exception does not exempt from podSecurity rules as a whole but only from the controls that Controls
	// names, a value that belongs to the compiler of those rules. Other rules do not look at it.
	Relaxes  bool
	Controls any
	// Object is what it was compiled of, for those who translate it.
	Object map[string]any
	// Diags are the mistakes found by Check and Compile. An exception with errors must not be used.
	Diags diag.List
}

// ExceptionRules are rules of one policy.
type ExceptionRules struct {
	Policy string   // name, or namespace/name, of the policy; exact
	Names  []string // of the rules; wildcards
}

// Key is `namespace/name`, or `name` without a namespace.
func (e *Exception) Key() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

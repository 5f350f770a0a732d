package policy

import (
	"context"
	"time"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/value"
)

// Exception exempts resources from rules. It is immutable after Compile and shared by all goroutines.
type Exception struct {
	Group           string // API group of the exception; empty for kyverno.io
	Namespace, Name string // Namespace may be empty on the command line
	UID             string
	Generation      int64
	ResourceVersion string
	// Background: the exception also holds where an existing object is scanned.
	Background bool
	// Kinds are the kinds of policies that it can be for, where Rules name none.
	Kinds []string
	// Rules are the exempted rules.
	Rules []ExceptionRules
	// Match reports whether the exception selects the object of the request. An error means that the answer is not known.
	Match func(ctx context.Context, r *Request) (bool, error)
	// Conditions reports whether the conditions of the exception hold, with the variables of the rule; nil when it has none.
	Conditions func(c *Call, variables Variables) (bool, error)
	// Needs holds what Match and Conditions read, Reads the parts of the request's object among it; nil: any part.
	Needs Needs
	Reads *value.Fields
	// Relaxes: for podSecurity rules, the exception exempts only from the controls in Controls, a value of the compiler of these rules.
	// Other rules ignore it.
	Relaxes  bool
	Controls any
	// Images and Values, when set, make the exception partial: it does not exempt, and the expressions of the policy read them. ReportPass:
	// an exempt request is reported as passed. Of several exceptions the one with the highest Priority decides that.
	Images, Values []string
	ReportPass     bool
	Priority       int
	// Expires is the moment from which on the exception does not count; zero for never.
	Expires time.Time
	// Object is what it was compiled of, for those who translate it.
	Object map[string]any
	// Diags are the mistakes found by Check and Compile. Do not use an exception with errors.
	Diags diag.List
}

// Partial reports whether the exception relaxes policies instead of exempting from them.
func (e *Exception) Partial() bool { return len(e.Images)+len(e.Values) > 0 }

// ExceptionRules are rules of one policy.
type ExceptionRules struct {
	Kind   string // of the policy; empty for each of the exception's Kinds
	Policy string // name, or namespace/name, of the policy; exact
	// AnyNamespace: Policy is the bare name of the policy, whatever its namespace.
	AnyNamespace bool
	Names        []string // of the rules; wildcards
}

// Key is `namespace/name`, or `name` without a namespace.
func (e *Exception) Key() string {
	if e.Namespace == "" {
		return e.Name
	}
	return e.Namespace + "/" + e.Name
}

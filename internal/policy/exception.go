package policy

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/value"
)

// Exception exempts resources from rules. It is immutable after Compile and shared by all goroutines.
type Exception struct {
	APIVersion, Kind string
	Namespace, Name  string // Namespace may be empty on the command line
	UID              string
	Generation       int64
	ResourceVersion  string
	// Background: the exception also applies in scans of existing objects.
	Background bool
	// Kinds are the kinds of policies that it can apply to: those of the families with exceptions of its kind.
	Kinds []string
	// Rules are the exempted rules.
	Rules []ExceptionRules
	// Match reports whether the exception selects the object of the request; nil when it selects each. An error means that the answer is not known.
	Match func(ctx context.Context, r *Request) (bool, error)
	// Conditions reports whether the conditions of the exception are true, with the variables of the rule; nil if it has none.
	Conditions func(c *Call, variables Variables) (bool, error)
	// Needs holds the data that Match and Conditions read, Reads the fields of the request's object among it; nil for any field.
	Needs Needs
	Reads *value.Fields
	// Partial: the exception exempts only from parts of a rule that can be evaluated in parts: those in Controls, Images and Values. Other
	// rules ignore these.
	Partial bool
	// Controls is a value of the compiler of podSecurity rules. Images and Values are read by expressions.
	Controls       any
	Images, Values []string
	// ReportPass: an exempt request is reported as passed. Of several exceptions, the one with the highest Priority decides.
	ReportPass bool
	Priority   int
	// Expires is the time after which the exception has no effect in a cluster; zero for never.
	Expires time.Time
	// Object is the source of the exception, for its conversion.
	Object map[string]any
	// Diags are the mistakes found by Check and Compile. Do not use an exception with errors.
	Diags diag.List
}

// Mistaken returns the exception in a form in which each rule that it names fails with the error.
func (e *Exception) Mistaken(err error) *Exception {
	out := *e
	out.Match = func(context.Context, *Request) (bool, error) {
		return false, fmt.Errorf("the exception %s has a mistake: %w", e.Key(), err)
	}
	out.Conditions, out.Partial = nil, false
	return &out
}

// ExceptionID identifies an exception: two groups have exceptions, which may have the same name in the same namespace.
type ExceptionID struct{ Group, Namespace, Name string }

// ID identifies the exception.
func (e *Exception) ID() ExceptionID {
	group, _, _ := strings.Cut(e.APIVersion, "/")
	return ExceptionID{Group: group, Namespace: e.Namespace, Name: e.Name}
}

// Compare orders IDs by their keys, and then by their groups.
func (id ExceptionID) Compare(other ExceptionID) int {
	return cmp.Or(cmp.Compare(id.Key(), other.Key()), cmp.Compare(id.Group, other.Group))
}

// ExceptionRules are rules of one policy.
type ExceptionRules struct {
	Kind   string // of the policy; empty for each of the exception's Kinds
	Policy string // name, or namespace/name, of the policy; exact
	// AnyNamespace: Policy is the bare name of the policy, in any namespace.
	AnyNamespace bool
	Names        []string // of the rules; wildcards
}

// Key returns `namespace/name`, or `name` without a namespace, the form in texts.
func (id ExceptionID) Key() string {
	if id.Namespace == "" {
		return id.Name
	}
	return id.Namespace + "/" + id.Name
}

// Key returns the key of its ID.
func (e *Exception) Key() string { return e.ID().Key() }

// String returns the key.
func (e *Exception) String() string { return e.Key() }

// ExceptionKeys returns the keys of exceptions.
func ExceptionKeys(list []*Exception) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = e.Key()
	}
	return out
}

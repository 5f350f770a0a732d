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
	// Background: the exception also holds where an existing object is scanned.
	Background bool
	// Kinds are the kinds of policies that it can be for: those of the families that have exceptions of its kind.
	Kinds []string
	// Rules are the exempted rules.
	Rules []ExceptionRules
	// Match reports whether the exception selects the object of the request; nil when it selects each. An error means that the answer is not known.
	Match func(ctx context.Context, r *Request) (bool, error)
	// Conditions reports whether the conditions of the exception hold, with the variables of the rule; nil when it has none.
	Conditions func(c *Call, variables Variables) (bool, error)
	// Needs holds what Match and Conditions read, Reads the parts of the request's object among it; nil: any part.
	Needs Needs
	Reads *value.Fields
	// Partial: the exception does not exempt from a rule that can be evaluated in part; the rule allows what Controls, Images and
	// Values name. Other rules do not look at these.
	Partial bool
	// Controls is a value that belongs to the compiler of podSecurity rules. Images and Values are what expressions read.
	Controls       any
	Images, Values []string
	// ReportPass: an exempt request is reported as passed. Of several exceptions the one of the highest Priority decides that.
	ReportPass bool
	Priority   int
	// Expires is the moment from which on the exception has no effect in a cluster; zero for never.
	Expires time.Time
	// Object is what it was compiled of, for those who translate it.
	Object map[string]any
	// Diags are the mistakes found by Check and Compile. Do not use an exception with errors.
	Diags diag.List
}

// Mistaken returns the exception in the form that makes each rule that it names give the error.
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

// Compare orders by the keys, and then by the groups.
func (id ExceptionID) Compare(other ExceptionID) int {
	return cmp.Or(cmp.Compare(id.Key(), other.Key()), cmp.Compare(id.Group, other.Group))
}

// ExceptionRules are rules of one policy.
type ExceptionRules struct {
	Kind   string // of the policy; empty for each of the exception's Kinds
	Policy string // name, or namespace/name, of the policy; exact
	// AnyNamespace: Policy is the bare name of the policy, whatever its namespace.
	AnyNamespace bool
	Names        []string // of the rules; wildcards
}

// Key is `namespace/name`, or `name` without a namespace, as texts name exceptions.
func (id ExceptionID) Key() string {
	if id.Namespace == "" {
		return id.Name
	}
	return id.Namespace + "/" + id.Name
}

// Key is that of its ID.
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

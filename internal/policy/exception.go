package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/value"
)

// Exception exempts resources from rules. It is immutable after Compile and safe for concurrent use.
type Exception struct {
	APIVersion, Kind string
	Namespace, Name  string // Namespace may be empty on the command line
	UID              string
	Generation       int64
	ResourceVersion  string
	// Background: the exception also applies in scans of existing objects.
	Background bool
	// Kinds are the kinds of policies to which the exception can apply: those of the families that use its kind of exceptions.
	Kinds []string
	// Rules are the exempted rules.
	Rules []ExceptionRules
	// Match reports whether the exception selects the object of the request; nil means that it selects every object. An error means that the
	// answer is unknown.
	Match func(ctx context.Context, r *Request) (bool, error)
	// MatchSteps is what Rule.MatchSteps is for a rule.
	MatchSteps int
	// Conditions reports whether the conditions of the exception are true, with the variables of the rule; nil if it has none.
	Conditions func(c *Call, variables Variables) (bool, error)
	// Needs holds the data that Match and Conditions read. Reads holds the fields of the request's object that they read; nil for any field.
	Needs Needs
	Reads *value.Fields
	// Partial: the exception exempts only from parts of a rule that can be evaluated in parts, as listed in Controls, Images and Values.
	// Other rules ignore these lists.
	Partial bool
	// Controls is a value of the compiler of podSecurity rules. Expressions read Images and Values.
	Controls       any
	Images, Values []string
	// ReportPass: an exempt request is reported as passed. If there are several exceptions, the one with the highest Priority decides.
	ReportPass bool
	Priority   int
	// Expires is the time from which the exception has no effect; zero for never.
	Expires time.Time
	// EndsSoon: the end is at most the settings' warnDays away.
	EndsSoon bool
	// Reason is why the exception exists, and Owner who answers for it; empty if the author does not say so.
	Reason, Owner string
	// Workload: where the exception exempts a controller, it exempts the objects that the live controller's template gives, too. It names the
	// rules that are derived from those that it names.
	Workload bool
	// Audit: the objects are not exempt. A failure is reported, and does not deny the request.
	Audit bool
	// Source returns the source of the exception, which is needed to convert it. Do not change it.
	Source func() map[string]any
	rest   *rest // what AtRest left out; nil for nothing
	// Diags are the mistakes found by Check and Compile. Do not use an exception with errors.
	Diags diag.List
}

// AtRest returns a copy of the exception without what only evaluations need, so that it takes less memory while no policy exists that it names.
// compile returns the exception as it is; it is called at most once.
func (e *Exception) AtRest(compile func() *Exception) *Exception {
	out := *e
	out.Match, out.Conditions, out.Controls, out.Images, out.Values, out.Diags = nil, nil, nil, nil, nil, nil
	out.rest = &rest{compile: compile}
	return &out
}

// rest compiles an exception when it is needed.
type rest struct {
	once    sync.Once
	compile func() *Exception
	whole   *Exception
}

// Whole returns the exception with everything that evaluations need.
func (e *Exception) Whole() *Exception {
	if e.rest == nil {
		return e
	}
	e.rest.once.Do(func() { e.rest.whole = e.rest.compile() })
	out := e.rest.whole
	if out.EndsSoon != e.EndsSoon {
		changed := *out
		changed.EndsSoon = e.EndsSoon
		return &changed
	}
	return out
}

// Unusable returns a copy of the exception that makes each rule it names fail with the reason.
func (e *Exception) Unusable(reason error) *Exception {
	out := *e
	out.Match = func(context.Context, *Request) (bool, error) {
		return false, fmt.Errorf("the exception %s cannot be used: %w", e.Key(), reason)
	}
	out.Conditions, out.Partial = nil, false
	return &out
}

// Expired reports whether the exception has ended at the time.
func (e *Exception) Expired(now time.Time) bool { return !e.Expires.IsZero() && !now.Before(e.Expires) }

// ExceptionID identifies an exception. Two API groups have exceptions, and these may have the same name in the same namespace.
type ExceptionID struct{ Group, Namespace, Name string }

// ID returns the ID of the exception.
func (e *Exception) ID() ExceptionID {
	group, _, _ := strings.Cut(e.APIVersion, "/")
	return ExceptionID{Group: group, Namespace: e.Namespace, Name: e.Name}
}

// Compare orders IDs by their keys, and then by their groups.
func (id ExceptionID) Compare(other ExceptionID) int {
	return cmp.Or(cmp.Compare(id.Key(), other.Key()), cmp.Compare(id.Group, other.Group))
}

// ExceptionRules selects rules of one policy.
type ExceptionRules struct {
	Kind   string // the kind of the policy; empty for all of the exception's Kinds
	Policy string // the exact name or namespace/name of the policy
	// AnyNamespace: Policy is the bare name of the policy, in any namespace.
	AnyNamespace bool
	Names        []string // the names of the rules; may contain wildcards
}

// From reports whether the exception is for a policy, which is given as reports name it.
func (e *Exception) From(policyName string) bool {
	_, bare, _ := strings.Cut(policyName, "/")
	return slices.ContainsFunc(e.Rules, func(r ExceptionRules) bool { return r.Policy == policyName || r.AnyNamespace && r.Policy == bare })
}

// Key returns `namespace/name`, or `name` without a namespace, as it is shown in texts.
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

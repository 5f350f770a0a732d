package exempt

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Terms define how exceptions apply to a rule, and the texts of the results. They are shared and must not be changed.
type Terms struct {
	// Skipped and Passed are the beginnings of result messages; the keys of the exceptions follow. Passed is empty if exceptions cannot
	// request a pass.
	Skipped, Passed string
	// Part is the part of the policy that reports name for such a result; empty for the rule.
	Part string
	// InParts: partial exceptions exempt from parts of the rule only. If false, they exempt from the whole rule.
	InParts bool
	// First: if several exceptions exempt from the whole rule, a result names only the first one.
	First bool
	// Strict: conditions without a value are an error of the rule, unless an earlier exception exempts. If false, the exception does not
	// apply, since nothing proves that the object is exempt.
	Strict bool
}

// Verdict is the result of evaluating a rule's exceptions for a request.
type Verdict struct {
	// Exempt: the request is exempt from the rule as a whole, with this Result.
	Exempt bool
	Result policy.Yield
	// Partial are the exceptions that allow parts of the request; only for a request that is not exempt.
	Partial []*policy.Exception
}

// Evaluate evaluates the exceptions of a call's rule, in order. Their conditions read the variables, which are nil in a language without
// variables. An error comes from a condition, and only if the terms are strict.
func (t *Terms) Evaluate(c *policy.Call, variables policy.Variables) (Verdict, error) {
	if c.Rule == nil || len(c.Rule.Exceptions) == 0 {
		return Verdict{}, nil
	}
	var whole, partial []*policy.Exception
	for _, e := range c.Rule.Exceptions {
		switch ok, err := applies(e, c, variables); {
		case err != nil && t.Strict && len(whole) == 0:
			return Verdict{}, err
		case err != nil || !ok:
		case t.InParts && e.Partial:
			partial = append(partial, e)
		default:
			whole = append(whole, e)
		}
	}
	switch {
	case len(whole) == 0:
		return Verdict{Partial: partial}, nil
	case t.First:
		whole = whole[:1]
	}
	return Verdict{Exempt: true, Result: t.Result(whole)}, nil
}

// applies reports whether the exception applies to the request.
func applies(e *policy.Exception, c *policy.Call, variables policy.Variables) (bool, error) {
	if c.Request.Origin == policy.FromScan && !e.Background {
		return false, nil
	}
	if e.Match != nil {
		if ok, err := e.Match(budget.With(c.Context(), c.Meter), c.Request); err != nil || !ok {
			return false, err
		}
	}
	if e.Conditions == nil {
		return true, nil
	}
	return e.Conditions(c, variables)
}

// Result returns the result of an exempt rule. The exception with the highest priority decides between skip and pass; without priorities,
// the first one.
func (t *Terms) Result(by []*policy.Exception) policy.Yield {
	first := by[0]
	for _, e := range by[1:] {
		if e.Priority > first.Priority {
			first = e
		}
	}
	y := policy.Yield{Status: policy.StatusSkip, Message: t.Skipped, Exceptions: by, Part: t.Part}
	if first.ReportPass && t.Passed != "" {
		y.Status, y.Message = policy.StatusPass, t.Passed
	}
	y.Message += strings.Join(policy.ExceptionKeys(by), ", ")
	return y
}

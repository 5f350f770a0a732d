package exempt

import (
	"context"
	"fmt"
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/evalenv"
	"ephor.invalid/ephor/internal/policy"
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
	// Strict: an exception that cannot be evaluated is an error of the rule, unless another one exempts, since what the rule does cannot be
	// undone. If false, it exempts nothing, since nothing proves that the object is exempt.
	Strict bool
}

// Verdict is the result of evaluating a rule's exceptions for a request that at least one of them selects.
type Verdict struct {
	// Exempt: the request is exempt from the rule as a whole, with this Result.
	Exempt bool
	Result policy.Yield
	// Partial are the exceptions that allow parts of the request; only for a request that is not exempt.
	Partial []*policy.Exception
}

// Evaluate evaluates the exceptions of a call's rule, in order. The verdict is nil if none of them applies, as for most requests. Their conditions read the variables, which are nil in a language without
// variables. An exception that cannot be evaluated has no effect on the others; the call records it. The error means that the time for the
// evaluation is over, or that an exception on strict terms cannot be evaluated.
func (t *Terms) Evaluate(c *policy.Call, variables policy.Variables) (*Verdict, error) {
	if c.Rule == nil || len(c.Rule.Exceptions) == 0 {
		return nil, nil
	}
	var whole, partial []*policy.Exception
	var unknown error
	var own *evaluation
	given := c.ForExceptions()
	for _, e := range c.Rule.Exceptions {
		if e.Audit && !given.Audits || len(given.Owners) == 0 && misses(c, e) {
			continue
		}
		if own == nil {
			own = apart(c)
		}
		switch ok, err := own.applies(e, variables); {
		case err != nil:
			if over := c.Context().Err(); over != nil {
				return nil, over
			}
			if unknown == nil {
				unknown = err
			}
			if c.Request.Origin == policy.FromScan && e.Needs.User && !t.Strict {
				continue // a scan does not know the requester, so this is no mistake of the exception
			}
			c.NotEvaluated(e, err)
		case !ok:
		case t.InParts && e.Partial:
			partial = append(partial, e)
		default:
			whole = append(whole, e)
		}
	}
	switch {
	case len(whole) == 0 && t.Strict && unknown != nil:
		return nil, unknown
	case len(whole)+len(partial) == 0:
		return nil, nil
	case len(whole) == 0:
		return &Verdict{Partial: partial}, nil
	case t.First:
		whole = whole[:1]
	}
	return &Verdict{Exempt: true, Result: t.Result(whole)}, nil
}

// misses reports whether the exception does not select the object of the call, as far as that is known without a budget. Most exceptions of a
// rule are for other objects.
func misses(c *policy.Call, e *policy.Exception) (certain bool) {
	if e.Match == nil || e.MatchSteps > 0 || c.Request.Trace != nil {
		return false
	}
	defer func() {
		if recover() != nil {
			certain = false
		}
	}()
	ok, err := e.Match(c.Context(), c.Request)
	return !ok && err == nil
}

// evaluation evaluates exceptions with a budget of their own, so that they cannot use up that of the policy.
type evaluation struct {
	of    *policy.Call
	ctx   context.Context // of the call
	meter budget.Apart
	own   *call // the call for conditions; nil until an exception has some, since most have none
}

// call is a Call with the budget of an evaluation.
type call struct {
	policy.Call
	env evalenv.Env
}

func apart(c *policy.Call) *evaluation { return &evaluation{of: c, ctx: c.Context()} }

// call returns the call for the conditions of an exception about a request.
func (x *evaluation) call(req *policy.Request) *policy.Call {
	if x.own == nil || req != x.of.Request {
		own := &call{Call: *x.of, env: *x.of.Env}
		own.env.Meter, own.Env = &x.meter.Meter, &own.env
		if req != x.of.Request {
			own.Request, own.Shared = req, nil
			return &own.Call
		}
		x.own = own
	}
	return &x.own.Call
}

// applies reports whether the exception applies to the request. A panic is an error of the exception.
func (x *evaluation) applies(e *policy.Exception, variables policy.Variables) (ok bool, err error) {
	if x.of.Request.Origin == policy.FromScan && !e.Background {
		return false, nil
	}
	defer func() {
		if v := recover(); v != nil {
			ok, err = false, fmt.Errorf("the exception panicked: %v", v)
		}
	}()
	var pacer budget.Pacer
	given := x.of.ForExceptions()
	if e.Conditions != nil && given.Pace != nil {
		if pacer = given.Pace(e, x.of.Request); pacer != nil {
			defer pacer.Done()
			if err := pacer.Pace(x.ctx, 0); err != nil {
				return false, err
			}
		}
	}
	x.meter.ForException(x.ctx, len(x.of.Rule.Exceptions), pacer)
	defer func() { _ = x.meter.Settle() }() // an error is the result of the conditions
	if ok, err = x.matches(e, x.of.Request, variables); ok || !e.Workload {
		return ok, err
	}
	for _, owner := range given.Owners {
		if ok, _ := x.matches(e, owner, nil); ok {
			return true, nil
		}
	}
	return false, err
}

// matches reports whether the exception selects a request.
func (x *evaluation) matches(e *policy.Exception, req *policy.Request, variables policy.Variables) (bool, error) {
	if e.Match != nil {
		if ok, err := e.Match(budget.With(x.ctx, &x.meter.Meter), req); err != nil || !ok {
			return false, err
		}
	}
	if e.Conditions == nil {
		return true, nil
	}
	return e.Conditions(x.call(req), variables)
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

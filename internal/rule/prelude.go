package rule

import (
	"strings"

	"ephor.invalid/ephor/internal/condition"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

// handler evaluates a request after the prelude.
type handler func(*scope.Scope) policy.Yield

const textPreconditions = "preconditions not met"

// prelude contains the parts of every rule before and after its handler: context entries are registered but not loaded, preconditions
// are evaluated, then exceptions, and the result gets the report properties of the rule.
type prelude struct {
	context       *loader.Chain
	preconditions *condition.Set                  // nil if there are none
	once          bool                            // the preconditions count as they were at admission (policy.Request.Held)
	relaxed       relaxed                         // nil if exceptions can only exempt from the whole rule
	properties    *properties                     // nil if there are none
	bind          func(*scope.Scope) *scope.Scope // adds the variables of the rule kind; nil if there are none
	// concerns reports whether the object has what the rule is about, such as images; nil if every object has. An object without it is not
	// skipped, but has no result.
	concerns func(*scope.Scope) bool
}

// around returns the evaluator of a rule. Missing parts have no cost.
func (p prelude) around(run handler) func(*policy.Call) policy.Yield {
	run = p.exempt(run)
	eval := run
	if p.preconditions != nil {
		eval = func(s *scope.Scope) policy.Yield {
			if p.once && s.Request.Held {
				return run(s)
			}
			if y := evaluatePreconditions(p.preconditions, s); y.Status != policy.StatusNone {
				return y
			}
			return run(s)
		}
	}
	if p.concerns != nil {
		all := eval
		eval = func(s *scope.Scope) policy.Yield {
			y := all(s)
			if y.Status == policy.StatusSkip && !p.concerns(s) {
				return policy.Yield{}
			}
			return y
		}
	}
	if p.context == nil && p.properties == nil && p.bind == nil {
		return func(c *policy.Call) policy.Yield { return eval(scope.New(c)) }
	}
	return func(c *policy.Call) policy.Yield {
		s := scope.New(c)
		if p.bind != nil {
			s = p.bind(s)
		}
		s = p.context.Apply(s)
		y := eval(s)
		if y.Status != policy.StatusNone {
			written := p.properties.resolve(s)
			y.Properties = merge(written, y.Properties)
			for i := range y.Also {
				y.Also[i].Properties = merge(written, y.Also[i].Properties)
			}
		}
		return y
	}
}

// evaluatePreconditions evaluates preconditions. It returns no result if they are true, and otherwise a skip or an error.
func evaluatePreconditions(preconditions *condition.Set, s *scope.Scope) policy.Yield {
	verdict, err := preconditions.Eval(s.QueryEnv(), s)
	if err != nil {
		return failed("failed to evaluate preconditions: ", err)
	}
	if verdict.OK {
		return policy.Yield{}
	}
	message := textPreconditions
	if len(verdict.Messages) > 0 {
		message += "; " + strings.Join(verdict.Messages, "; ")
	}
	return policy.Yield{Status: policy.StatusSkip, Message: message}
}

// failed returns a result of status error.
func failed(prefix string, err error) policy.Yield {
	return policy.Yield{Status: policy.StatusError, Message: prefix + err.Error(), Cause: err}
}

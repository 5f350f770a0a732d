package rule

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/scope"
)

// These texts are Kyverno's, verbatim. The first has no blank before the keys.
const (
	textExceptions   = "rule is skipped due to policy exceptions"
	textException    = "rule is skipped due to policy exception "
	textAllExcepted  = "rule is skipped due to policy exceptions "
	exceptionsJoiner = ", "
)

// relaxed evaluates a request like the handler, but without the controls that exceptions name (policy.Exception.Controls).
type relaxed func(s *scope.Scope, controls []any) policy.Yield

// exempt puts the exceptions of a rule between its preconditions and its handler. This is the only place
// where exceptions are evaluated, for admission, scans and the command line alike; no rule kind knows them.
//
// Any applicable exception exempts. Only where the handler can be relaxed, and every applicable exception wants no more
// than that, what remains is evaluated, and its verdict stays when it is a failure.
func (p prelude) exempt(run handler) handler {
	return func(s *scope.Scope) policy.Yield {
		if s.Rule == nil || len(s.Rule.Exceptions) == 0 {
			return run(s)
		}
		found := applicable(s)
		switch {
		case len(found) == 0:
			return run(s)
		case p.relaxed == nil && s.Rule.Stage.Has(policy.StageGenerate|policy.StageMutateExisting):
			return skippedBy(textException, found...)
		case p.relaxed == nil:
			return skippedBy(textExceptions, found...)
		}
		controls := make([]any, 0, len(found))
		for _, e := range found {
			if !e.Relaxes {
				return skippedBy(textException, e)
			}
			controls = append(controls, e.Controls)
		}
		y := run(s)
		if y.Status != policy.StatusFail {
			return y
		}
		if y = p.relaxed(s, controls); y.Status == policy.StatusPass {
			return skippedBy(textAllExcepted, found...)
		}
		return y
	}
}

// applicable are the exceptions whose match block and conditions select the request. One that cannot be evaluated is passed
// over: the rule is evaluated on an object that is not known to be exempt.
func applicable(s *scope.Scope) []*policy.Exception {
	var out []*policy.Exception
	for _, e := range s.Rule.Exceptions {
		if s.Request.Origin == policy.FromScan && !e.Background {
			continue
		}
		if ok, err := e.Match(budget.With(s.Env.Meter.Context(), s.Env.Meter), s.Request); err != nil || !ok {
			continue
		}
		if e.Conditions != nil {
			if ok, err := e.Conditions(s.Call, s); err != nil || !ok {
				continue
			}
		}
		out = append(out, e)
	}
	return out
}

// skippedBy is the result of a rule that exceptions exempt from.
func skippedBy(text string, by ...*policy.Exception) policy.Yield {
	keys := make([]string, len(by))
	for i, e := range by {
		keys[i] = e.Key()
	}
	return policy.Yield{Status: policy.StatusSkip, Message: text + strings.Join(keys, exceptionsJoiner), Exceptions: keys}
}

package rule

import (
	"ephor.invalid/ephor/internal/exempt"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scope"
)

// The terms of exceptions for the kinds of rules. The texts are copied verbatim from Kyverno; the first one has no space before the keys.
var (
	wholeRule    = &exempt.Terms{Skipped: "rule is skipped due to policy exceptions"}
	deferredRule = &exempt.Terms{Skipped: "rule is skipped due to policy exception "}
	inParts      = &exempt.Terms{Skipped: "rule is skipped due to policy exception ", InParts: true, First: true}
	allParts     = &exempt.Terms{Skipped: "rule is skipped due to policy exceptions "}
)

// relaxed evaluates a request like the handler, but without the controls that exceptions name (policy.Exception.Controls).
type relaxed func(s *scope.Scope, controls []any) policy.Yield

// exempt evaluates the exceptions of a rule after its preconditions and before its handler, for all rule kinds. If the handler can be
// relaxed, partial exceptions do not exempt completely: the rest of the rule is evaluated, and its failure stands.
func (p prelude) exempt(run handler) handler {
	return func(s *scope.Scope) policy.Yield {
		if s.Rule == nil || len(s.Rule.Exceptions) == 0 {
			return run(s)
		}
		verdict, err := p.terms(s.Rule).Evaluate(s.Call, s)
		switch {
		case err != nil:
			return failed("failed to evaluate the exceptions: ", err)
		case verdict == nil:
			return run(s)
		case verdict.Exempt:
			return verdict.Result
		}
		y := run(s)
		if y.Status != policy.StatusFail {
			return y
		}
		controls := make([]any, len(verdict.Partial))
		for i, e := range verdict.Partial {
			controls[i] = e.Controls
		}
		if y = p.relaxed(s, controls); y.Status == policy.StatusPass {
			return allParts.Result(verdict.Partial)
		}
		return y
	}
}

// terms returns the terms on which exceptions apply to the rule.
func (p prelude) terms(r *policy.Rule) *exempt.Terms {
	switch {
	case p.relaxed != nil:
		return inParts
	case r.Stage.Has(policy.StageGenerate | policy.StageMutateExisting):
		return deferredRule
	}
	return wholeRule
}

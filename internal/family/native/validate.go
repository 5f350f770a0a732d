package native

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/strict"
)

// validation is a compiled validating policy.
type validation struct {
	subject
}

// compileValidation compiles a validating policy.
func compileValidation(in Source) (*validation, *policy.Program) {
	var object admissionregistrationv1.ValidatingAdmissionPolicy
	diags := strict.Decode(in.Policy, &object)
	spec := &object.Spec
	p := &validation{subject: subject{bindings: in.Bindings, allowance: in.Allowance}}
	out := outline(object.TypeMeta, object.ObjectMeta, spec.FailurePolicy)
	diags.Add(p.about(spec.MatchConstraints, spec.ParamKind)...)
	if len(spec.Validations)+len(spec.AuditAnnotations) == 0 {
		diags.Errorf("spec.validations", "a policy needs validations or auditAnnotations")
	}
	diags.Add(p.compileChecks(spec)...)
	out.Rules = []*policy.Rule{{
		Name: object.Name, Kind: ValidatingRuleKind, Stage: policy.StageValidate, Path: "spec",
		Offline:  policy.Offline{Whole: true, SkipsUncounted: true},
		Matching: policy.Matching{Targets: p.match.Targets(), Excludes: p.match.Excludes(), Match: p.matches},
		Reads:    policy.Reads{Needs: p.needs()},
		Eval:     p.decide,
	}}
	out.Diags = diags
	return p, out
}

// compileChecks compiles the expressions.
func (p *validation) compileChecks(spec *admissionregistrationv1.ValidatingAdmissionPolicySpec) diag.List {
	c := p.compile(spec.Variables, spec.MatchConditions)
	for i := range spec.Validations {
		p.rule.Validations = append(p.rule.Validations, c.Validation(&spec.Validations[i], fmt.Sprintf("spec.validations[%d]", i), typecheck.String))
	}
	return p.done(c)
}

// decide returns the result of the policy for a request. It evaluates all bindings that select the request, or the policy alone if
// there are none. A failure takes precedence over an error, and one of a binding that denies over others.
func (p *validation) decide(c *policy.Call) policy.Yield {
	bound := []*Binding{nil}
	if len(p.bindings) > 0 {
		var err error
		if bound, err = p.bound(c.Context(), c.Request); err != nil {
			return failed(err)
		}
	}
	out := policy.Yield{Status: policy.StatusSkip, Message: textSkipped, Unmatched: true}
	for _, b := range bound {
		y := p.evaluate(c, b)
		if y.Status == policy.StatusFail && (b == nil || b.action.Has(policy.Deny)) {
			return y
		}
		if y.Status != policy.StatusNone && rank(y.Status) > rank(out.Status) {
			out = y
		}
	}
	return out
}

// rank orders the results of bindings; the highest one is the policy's.
func rank(s policy.Status) int {
	return slices.Index([]policy.Status{policy.StatusSkip, policy.StatusPass, policy.StatusError, policy.StatusFail}, s)
}

// evaluate evaluates the checks with one binding, for each of its parameters; the first failure decides. If match conditions exclude the
// request, the result has no status.
func (p *validation) evaluate(c *policy.Call, b *Binding) policy.Yield {
	inputs, err := p.inputs(c, b)
	if err != nil {
		return failed(err)
	}
	meter := c.Meter
	y := policy.Yield{}
	for _, in := range inputs {
		if ok, err := p.rule.Applies(meter.Context(), meter, in); err != nil {
			return failed(err)
		} else if !ok {
			continue
		}
		out, err := p.rule.Check(meter.Context(), meter, in)
		switch {
		case err != nil:
			return unevaluated(err)
		case out.Failed != nil:
			return policy.Yield{Status: policy.StatusFail, Message: cmp.Or(out.Message, out.Failed.Fallback())}
		}
		y = policy.Yield{Status: policy.StatusPass}
	}
	return y
}

// unevaluated returns the result if a check could not be evaluated: its error, in the API server's words. A failed lookup or an exceeded
// cost limit is an error of the policy.
func unevaluated(err error) policy.Yield {
	if evaluation := (*env.EvaluationError)(nil); errors.As(err, &evaluation) {
		return policy.Yield{Status: policy.StatusError, Message: err.Error()}
	}
	return failed(err)
}

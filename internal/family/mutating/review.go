package mutating

import (
	"strconv"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
)

// Messages of the review, copied verbatim from Kyverno.
const (
	textNoModes   = "disabling both admission and mutateExisting evaluation modes is not allowed"
	textVariables = "variables cannot be referenced in matchConditions when spec.autogen.mutatingAdmissionPolicy.enabled is true; " +
		"native MutatingAdmissionPolicy evaluates match conditions before variables, so inline the expression instead"
)

// review returns the mistakes for which the review rejects a policy.
func review(in family.Reviewed) diag.List {
	p, _ := Decode(in.Object)
	diags := append(celpolicy.ReviewConstraints(p.Spec.MatchConstraints), celpolicy.ReviewCalls(in)...)
	if e := p.Spec.Evaluation; e != nil && !celpolicy.On(e.Admission) && !changesExisting(&p.Spec) {
		diags.Forbidden("spec.evaluation", textNoModes)
	}
	if Asked(&p.Spec) {
		diags.Add(reviewNativeConditions(p)...)
	}
	return diags
}

// reviewNativeConditions reports conditions that use variables. It finds them because they compile only with the variables.
func reviewNativeConditions(p *policiesv1beta1.MutatingPolicy) (diags diag.List) {
	declared := env.Declarations{Kind: env.Mutating, Namespaced: p.Namespace != ""}
	with, without := celrule.New(declared, nil), celrule.New(declared, nil)
	with.Variables(p.Spec.Variables, "")
	for i, c := range p.Spec.MatchConditions {
		if _, err := with.Compile(c.Expression, typecheck.Bool); err != nil {
			continue // the compiler reports it
		}
		if _, err := without.Compile(c.Expression, typecheck.Bool); err != nil {
			diags.Invalid("spec.matchConditions["+strconv.Itoa(i)+"].expression", c.Expression, textVariables)
		}
	}
	return diags
}

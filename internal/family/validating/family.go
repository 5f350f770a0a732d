package validating

import (
	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// Kind is the cluster-wide kind of the family.
const Kind = "ValidatingPolicy"

// RuleKind is the kind of the rules of a Program of this family.
const RuleKind policy.RuleKind = "validatingPolicy"

// Family describes the family.
var Family = &family.Family{
	Name: "validating", Doc: "ValidatingPolicy and NamespacedValidatingPolicy of policies.kyverno.io",
	Kinds: familyKinds, Endpoints: endpoints,
	Status: &family.Status{Conditions: celpolicy.ConditionsPath, Rights: true, Make: status},
	Compile: func(in family.Source) *policy.Program {
		p, diags := Decode(in.Object)
		program := Compile(p, in)
		diags.AddNew(program.Diags...) // generated policies have the mistakes of the policy
		program.Diags = diags
		return program
	},
	Review: func(in family.Reviewed) diag.List {
		p, _ := Decode(in.Object)
		diags := celpolicy.ReviewCalls(in)
		if !in.Documents || mode(&p.Spec) != env.JSON && checkModeOf(&p.Spec) == nil {
			diags = append(celpolicy.ReviewConstraints(p.Spec.MatchConstraints), diags...)
		}
		return diags
	},
	FieldErrors: true, Exceptions: celpolicy.Exceptions,
}

var familyKinds = celpolicy.Kinds(family.Kind{
	Kind: Kind, Resource: "validatingpolicies", Short: "vpol", LabelPrefix: "vpol.kyverno.io/", Source: "KyvernoValidatingPolicy",
	Review:  family.ReviewPolicy,
	Metrics: &family.Metrics{Name: "kyverno_validating_policy", Kind: Kind, Per: "request or scanned object", Mode: true, Background: true},
})

// endpoints are the webhook endpoints for policies of the family.
var endpoints = celpolicy.Endpoint(policy.Endpoint{
	Kinds: []string{Kind}, Name: "vpol.validate.kyverno.svc", Path: "/vpol", Stages: policy.StageValidate, Words: celpolicy.Validating,
})

// Decode reads a policy of either kind and any served version.
func Decode(object map[string]any) (*policiesv1beta1.ValidatingPolicy, diag.List) {
	p := &policiesv1beta1.ValidatingPolicy{}
	diags := celpolicy.Decode(object, p, familyKinds)
	return p, diags
}

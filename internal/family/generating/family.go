package generating

import (
	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// Kind is the cluster-wide kind of the family.
const Kind = "GeneratingPolicy"

// Family describes the family.
var Family = &family.Family{
	Name: "generating", Doc: "GeneratingPolicy and NamespacedGeneratingPolicy of policies.kyverno.io", Kinds: familyKinds, Endpoints: endpoints,
	Status: &family.Status{Conditions: celpolicy.ConditionsPath, Rights: true, Make: status},
	Compile: func(in family.Source) *policy.Program {
		p, diags := Decode(in.Object)
		program := Compile(p, in.Options)
		diags.Add(program.Diags...)
		program.Diags = diags
		return program
	},
	Review: func(in family.Reviewed) diag.List {
		p, _ := Decode(in.Object)
		return append(celpolicy.ReviewConstraints(p.Spec.MatchConstraints), celpolicy.ReviewCalls(in)...)
	},
	FieldErrors: true, Exceptions: celpolicy.Exceptions,
}

var familyKinds = celpolicy.Kinds(family.Kind{
	Kind: Kind, Resource: "generatingpolicies", Short: "gpol", LabelPrefix: "gpol.kyverno.io/", Source: "KyvernoGeneratingPolicy", Work: family.Work{Generate: "cel-generate"},
	Review: family.ReviewPolicy,
	// Kyverno generates objects after the request, and its metrics count that as a scan.
	Metrics:    &family.Metrics{Name: "kyverno_generating_policy", Kind: Kind, Per: "trigger", Cause: "background_scan"},
	BareLabels: true,
})

// endpoints are the webhook endpoints for policies of the family.
var endpoints = celpolicy.Endpoint(policy.Endpoint{
	Kinds: []string{Kind}, Name: "gpol.validate.kyverno.svc", Path: "/gpol", Stages: policy.StageGenerate,
})

// status returns the status that a policy should have.
func status(object map[string]any, s family.State) (map[string]any, error) {
	p, _ := Decode(object) // the compiler reports decoding errors
	var e policiesv1beta1.GeneratingPolicyEvaluation
	if p.Spec.Evaluation != nil {
		e = *p.Spec.Evaluation
	}
	return celpolicy.Status(object, s, celpolicy.On(e.Admission), true, nil)
}

// Decode reads a policy of any served version.
func Decode(object map[string]any) (*policiesv1beta1.GeneratingPolicy, diag.List) {
	p := &policiesv1beta1.GeneratingPolicy{}
	return p, celpolicy.Decode(object, p, familyKinds)
}

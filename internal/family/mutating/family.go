package mutating

import (
	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// Kind is the cluster-wide kind of the family.
const Kind = "MutatingPolicy"

// Family describes the family.
var Family = &family.Family{
	Name: "mutating", Doc: "MutatingPolicy and NamespacedMutatingPolicy of policies.kyverno.io", Kinds: familyKinds, Endpoints: endpoints,
	Status: &family.Status{Conditions: celpolicy.ConditionsPath, Rights: true, Make: status},
	Compile: func(in family.Source) *policy.Program {
		p, diags := Decode(in.Object)
		program := Compile(p, in.Options)
		if !in.CommandLine && !in.Existing && handedOver(in.Object) {
			handOver(program)
		}
		diags.Add(program.Diags...)
		program.Diags = diags
		return program
	},
	Review: review, FieldErrors: true, HandedOver: handedOver, Exceptions: celpolicy.Exceptions,
}

var familyKinds = celpolicy.Kinds(family.Kind{
	Kind: Kind, Resource: "mutatingpolicies", Short: "mpol", LabelPrefix: "mpol.kyverno.io/", Source: "KyvernoMutatingPolicy", Work: family.Work{Mutate: "cel-mutate"},
	Review:  family.ReviewPolicy,
	Metrics: &family.Metrics{Name: "kyverno_mutating_policy", Kind: Kind, Per: "request or object", Background: true},
})

// Decode reads a policy of any served version.
func Decode(object map[string]any) (*policiesv1beta1.MutatingPolicy, diag.List) {
	p := &policiesv1beta1.MutatingPolicy{}
	return p, celpolicy.Decode(object, p, familyKinds)
}

package classic

import (
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/exception"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Family describes the family.
var Family = &family.Family{
	Name: "classic", Doc: "ClusterPolicy and Policy of kyverno.io", Kinds: familyKinds, Endpoints: Endpoints,
	Exceptions: exception.Exceptions,
	Compile: func(in family.Source) *policy.Program {
		p, diags := Decode(in.Object)
		diags.Add(Check(p)...)
		program := compileWithin(p, in.Within())
		diags.Add(program.Diags...)
		program.Diags = diags
		return program
	},
	Status: &family.Status{Conditions: []string{"conditions"}, Extended: true, Make: status},
	CheckUpdate: func(old, updated map[string]any) diag.List {
		before, _ := Decode(old)
		after, _ := Decode(updated)
		return CheckUpdate(before, after)
	},
}

var familyKinds = family.Kinds{
	{
		Group: Group, Kind: ClusterPolicy, Resource: "clusterpolicies", Short: "cpol", Versions: versions,
		LabelPrefix: "cpol.kyverno.io/", Source: family.SourceKyverno, Review: reviews, Rules: true, Work: family.Work{Generate: "generate", Mutate: "mutate"}, Superseded: true,
	},
	{
		Group: Group, Kind: Policy, Resource: "policies", Short: "pol", Versions: versions, Namespaced: true,
		LabelPrefix: "pol.kyverno.io/", Source: family.SourceKyverno, Review: reviews, Rules: true, Work: family.Work{Generate: "generate", Mutate: "mutate"}, Superseded: true,
	},
}

// reviews are the webhooks that review policies of the family.
const reviews = family.ReviewPolicy | family.ReviewDefaults

var versions = []string{"v1", "v2beta1"}

package cleanup

import (
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// Family describes the family.
var Family = &family.Family{
	Name: "cleanup", Doc: "ClusterCleanupPolicy and CleanupPolicy of kyverno.io", Kinds: familyKinds,
	Compile: func(in family.Source) *policy.Program {
		p, diags := Decode(in.Object)
		diags.Add(Check(p)...)
		program := compileWithin(p, in.Within())
		diags.Add(program.Diags...)
		program.Diags = diags
		return program
	},
}

var familyKinds = family.Kinds{
	{
		Group: Group, Kind: ClusterCleanupPolicy, Resource: "clustercleanuppolicies", Short: "ccleanpol", Versions: versions,
		Retired: retired, Source: family.SourceKyverno, Review: family.ReviewCleanup, Superseded: true, Run: run,
	},
	{
		Group: Group, Kind: CleanupPolicy, Resource: "cleanuppolicies", Short: "cleanpol", Versions: versions, Namespaced: true,
		Retired: retired, Source: family.SourceKyverno, Review: family.ReviewCleanup, Superseded: true, Run: run,
	},
}

var run = &family.Run{
	Controller: "cleanup-controller", Metrics: "kyverno_cleanup_controller", Delete: "clean up", Deleted: "cleaned up",
	Conditions: []string{"conditions"},
}

var versions, retired = []string{"v2", "v2beta1"}, []string{"v2alpha1"}

package deleting

import (
	policiesv1beta1 "github.com/ephor-dev/ephor/api/policies/v1beta1"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/family/celpolicy"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/schedule"
)

// Kind is the cluster-wide kind of the family.
const Kind = "DeletingPolicy"

// Family describes the family.
var Family = &family.Family{
	Name: "deleting", Doc: "DeletingPolicy and NamespacedDeletingPolicy of policies.kyverno.io", Kinds: familyKinds,
	Compile: func(in family.Source) *policy.Program {
		p, diags := Decode(in.Object)
		program := Compile(p, in.Options)
		diags.Add(program.Diags...)
		program.Diags = diags
		return program
	},
	Review: func(object map[string]any) diag.List {
		p, _ := Decode(object)
		diags := celpolicy.ReviewConstraints(p.Spec.MatchConstraints)
		diags.Add(reviewSchedule(p.Spec.Schedule)...)
		return diags
	},
	FieldErrors: true,
}

var familyKinds = withoutReview(celpolicy.Kinds(family.Kind{
	Kind: Kind, Resource: "deletingpolicies", Short: "dpol", Source: family.SourceKyverno, Review: family.ReviewPolicy, Scheduled: true, Offline: true,
}))

// withoutReview takes the review from the namespaced kind: Kyverno's webhook is not asked about it.
func withoutReview(kinds family.Kinds) family.Kinds {
	kinds.Scoped(true).Review = 0
	return kinds
}

// Decode reads a policy of any served version.
func Decode(object map[string]any) (*policiesv1beta1.DeletingPolicy, diag.List) {
	p := &policiesv1beta1.DeletingPolicy{}
	return p, celpolicy.Decode(object, p, familyKinds)
}

// textSchedule is Kyverno's, verbatim.
const textSchedule = "schedule spec in the deletingPolicy is not in proper cron format: "

// reviewSchedule finds what is wrong with a schedule. The command line evaluates a policy whatever its schedule is.
func reviewSchedule(text string) (diags diag.List) {
	if text == "" {
		diags.Required("spec.schedule", "schedule is required")
		return diags
	}
	if _, err := schedule.ParseExtended(text); err != nil {
		diags.Errorf("spec.schedule", "%s%v", textSchedule, err)
	}
	return diags
}

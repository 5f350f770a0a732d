package deleting

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policiesv1beta1 "ephor.invalid/ephor/api/policies/v1beta1"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schedule"
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
	Review: func(in family.Reviewed) diag.List {
		p, _ := Decode(in.Object)
		diags := celpolicy.ReviewCalls(in)
		if !in.Documents || p.Spec.MatchConstraints != nil { // without constraints, the command line evaluates it on documents
			diags = append(celpolicy.ReviewConstraints(p.Spec.MatchConstraints), diags...)
		}
		return diags
	},
	FieldErrors: true, Exceptions: celpolicy.Exceptions,
}

var familyKinds = celpolicy.Kinds(family.Kind{
	Kind: Kind, Resource: "deletingpolicies", Short: "dpol", Source: family.SourceKyverno, Review: family.ReviewPolicy, Run: &family.Run{
		Controller: "deleting-controller", Metrics: "kyverno_deleting_controller", CountsResources: true, Delete: "delete", Deleted: "deleted",
		Conditions: celpolicy.ConditionsPath, Ready: celpolicy.ReadyPath, Rights: rights,
	},
})

// Decode reads a policy of any served version.
func Decode(object map[string]any) (*policiesv1beta1.DeletingPolicy, diag.List) {
	p := &policiesv1beta1.DeletingPolicy{}
	return p, celpolicy.Decode(object, p, familyKinds)
}

// textSchedule is Kyverno's, verbatim.
const textSchedule = "schedule spec in the deletingPolicy is not in proper cron format: "

// parseSchedule parses the schedule. It returns nil if the schedule has a mistake.
func parseSchedule(text string) (*schedule.Schedule, diag.List) {
	var diags diag.List
	if text == "" {
		diags.Required("spec.schedule", "schedule is required")
		return nil, diags
	}
	s, err := schedule.ParseExtended(text)
	if err != nil {
		diags.Errorf("spec.schedule", "%s%v", textSchedule, err)
		diags.Hint("*/5 * * * * is every five minutes")
		return nil, diags
	}
	return s, nil
}

// rights returns the condition that reports whether the controller has the rights to execute the policy.
func rights(missing []family.MissingRight) metav1.Condition {
	return celpolicy.RightsCondition(missing, "Policy is ready for deletion.", "Policy is not ready for deletion, missing permissions: ")
}

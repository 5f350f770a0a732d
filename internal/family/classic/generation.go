package classic

import (
	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

// generation returns the settings for the objects that a generate rule creates. The field of the rule takes precedence over the deprecated
// field of the policy.
func generation(spec *kyvernov1.Spec, r *kyvernov1.Rule) *policy.Generation {
	g := r.Generation
	if g == nil {
		return nil
	}
	out := &policy.Generation{
		Existing: spec.GenerateExisting, Synchronize: g.Synchronize,
		Orphan: g.OrphanDownstreamOnPolicyDelete, ServerSideApply: spec.UseServerSideApply,
	}
	if g.GenerateExisting != nil {
		out.Existing = *g.GenerateExisting
	}
	return out
}

// onPolicyChange reports whether a change of the policy triggers a rule that mutates existing objects.
func onPolicyChange(spec *kyvernov1.Spec, r *kyvernov1.Rule) bool {
	return r.Mutation != nil && len(r.Mutation.Targets) > 0 && wantsPolicyChange(spec, r)
}

// wantsPolicyChange returns the field mutateExistingOnPolicyUpdate for a mutate rule. The field of the rule takes precedence over that of
// the policy.
func wantsPolicyChange(spec *kyvernov1.Spec, r *kyvernov1.Rule) bool {
	if own := r.Mutation.MutateExistingOnPolicyUpdate; own != nil {
		return *own
	}
	return spec.MutateExistingOnPolicyUpdate
}

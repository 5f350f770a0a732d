package classic

import (
	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/policy"
)

// generation is how a generate rule treats what it made; the rule's own field goes before the deprecated one of the
// policy.
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

// onPolicyChange: the rule's own field goes before that of the policy.
func onPolicyChange(spec *kyvernov1.Spec, r *kyvernov1.Rule) bool {
	if r.Mutation == nil || len(r.Mutation.Targets) == 0 {
		return false
	}
	if own := r.Mutation.MutateExistingOnPolicyUpdate; own != nil {
		return *own
	}
	return spec.MutateExistingOnPolicyUpdate
}

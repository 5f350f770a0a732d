package policyreview

import (
	"context"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
)

// Rights returns the rights that a stored policy needs and the controllers lack. The author's rights were checked when the policy was
// written; the author is unknown now.
func (v *Reviewer) Rights(ctx context.Context, p *policy.Program) diag.List {
	var diags diag.List
	if v.Accounts.Background != "" {
		diags.Add(v.workRights(ctx, p)...)
	}
	if p.Schedule != nil {
		diags.Add(v.checkDeletion(ctx, p, nil)...)
	}
	return diags
}

func (v *Reviewer) workRights(ctx context.Context, p *policy.Program) (diags diag.List) {
	lacking, err := Lacking(ctx, v.Discovery, v.Root.For(world.Cluster()).Access, v.Accounts.Background, p)
	if err != nil {
		diags.Errorf("spec", "the rights of %s cannot be looked up: %v", v.Accounts.Background, err)
	}
	for _, l := range lacking {
		diags.Errorf("spec", "%s", l.Text)
		diags.Code(diag.MissingRights, v.Accounts.Background)
	}
	return diags
}

// Aggregation returns the label of ClusterRoles that grant rights to the controller that executes the policy's work.
func (v *Reviewer) Aggregation(p *policy.Program) string {
	controller := "background-controller"
	if p.Schedule != nil {
		controller = "cleanup-controller"
	}
	return "rbac.kyverno.io/aggregate-to-" + controller + "=true"
}

package policyreview

import (
	"context"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Rights finds the rights that a stored policy needs and that the controllers lack. The rights of its author were checked when it was
// written, and are not known now.
func (v *Reviewer) Rights(ctx context.Context, p *policy.Program) diag.List {
	var diags diag.List
	if v.Accounts.Background != "" {
		diags.Add(v.controllerRights(ctx, p)...)
	}
	if p.Schedule != nil {
		diags.Add(v.checkDeletion(ctx, p, nil)...)
	}
	return diags
}

// Aggregation is the label of ClusterRoles that give rights to the controller that carries out the policy's work.
func (v *Reviewer) Aggregation(p *policy.Program) string {
	controller := "background-controller"
	if p.Schedule != nil {
		controller = "cleanup-controller"
	}
	return "rbac.kyverno.io/aggregate-to-" + controller + "=true"
}

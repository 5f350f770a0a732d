package impact

import (
	"context"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// Live evaluates policies of a cluster, with its exceptions, on all objects that they select there, and passes each result to add. The
// diagnostics report exceptions that could not be read.
func Live(ctx context.Context, kubeconfig, kubeContext string, programs []*policy.Program, add func(*impact.Evaluated)) (diag.List, error) {
	o := options{kubeconfig: kubeconfig, context: kubeContext}
	at, err := o.open(ctx)
	if err != nil {
		return nil, err
	}
	var given impact.Options
	at.attach(&given)
	exceptions, diags := at.exceptions(ctx)
	replica := impact.NewReplica(catalog.Join(programs, exceptions), given)
	return diags, impact.Each(ctx, at.objects(ctx, programs, ""), replica, nil, add)
}

package impact

import (
	"context"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// Seen are files with requests that a cluster received: audit logs of its API server, and recorded decisions with their requests.
type Seen struct{ AuditLogs, Decisions []string }

// Live evaluates policies of a cluster, with its exceptions, on all objects that they select there and on the requests, and passes each result
// to add. The diagnostics report exceptions that could not be read.
func Live(ctx context.Context, kubeconfig, kubeContext string, programs []*policy.Program, requests Seen, add func(*impact.Evaluated)) (diag.List, error) {
	o := options{kubeconfig: kubeconfig, context: kubeContext, auditLogs: requests.AuditLogs, decisions: requests.Decisions}
	at, err := o.open()
	if err != nil {
		return nil, err
	}
	var given impact.Options
	at.attach(&given)
	exceptions, diags := at.exceptions(ctx)
	replica := impact.NewReplica(catalog.Join(programs, exceptions), given)
	err = impact.Each(ctx, at.objects(ctx, programs, ""), replica, nil, add)
	if err == nil && o.recorded() {
		err = impact.Each(ctx, o.records(ctx, nil), replica, nil, add)
	}
	return diags, err
}

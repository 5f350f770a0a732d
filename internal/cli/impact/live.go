package impact

import (
	"context"
	"iter"
	"slices"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/policy"
)

// Seen are files with requests that a cluster received: audit logs of its API server, and recorded decisions with their requests.
type Seen struct{ AuditLogs, Decisions []string }

// atOnce is the number of objects that Live keeps in memory.
const atOnce = 500

// Live evaluates policies of a cluster, with its exceptions, on all objects that they select there and on the requests, and passes each result
// to add. It evaluates a policy that changes objects by itself: at admission, its changes or its error would hide what the others say about the
// objects as they are. The diagnostics report exceptions that could not be read.
func Live(ctx context.Context, kubeconfig, kubeContext string, programs []*policy.Program, requests Seen, add func(*impact.Evaluated)) (diag.List, error) {
	o := options{kubeconfig: kubeconfig, context: kubeContext, auditLogs: requests.AuditLogs, decisions: requests.Decisions}
	at, err := o.open()
	if err != nil {
		return nil, err
	}
	var given impact.Options
	at.attach(&given)
	exceptions, diags := at.exceptions(ctx)
	var replicas []*impact.Replica
	for _, group := range apart(catalog.Join(programs, exceptions)) {
		replicas = append(replicas, impact.NewReplica(group, given))
	}
	err = each(ctx, at.objects(ctx, programs, ""), replicas, add)
	if err == nil && o.recorded() {
		err = each(ctx, o.records(ctx, nil), replicas, add)
	}
	return diags, err
}

// apart returns the policies that change no objects, and each other one.
func apart(programs []*policy.Program) (out [][]*policy.Program) {
	var rest []*policy.Program
	for _, p := range programs {
		if slices.ContainsFunc(p.Rules, func(r *policy.Rule) bool { return r.Stage.Has(policy.StageMutate | policy.StageVerifyImages) }) {
			out = append(out, []*policy.Program{p})
		} else {
			rest = append(rest, p)
		}
	}
	if len(rest) > 0 {
		out = append(out, rest)
	}
	return out
}

// each evaluates records in each of the replicas.
func each(ctx context.Context, records iter.Seq[impact.Record], replicas []*impact.Replica, add func(*impact.Evaluated)) error {
	next := make([]impact.Record, 0, atOnce)
	evaluate := func() error {
		for _, replica := range replicas {
			if err := impact.Each(ctx, slices.Values(next), replica, nil, add); err != nil {
				return err
			}
		}
		next = next[:0]
		return nil
	}
	for r := range records {
		if next = append(next, r); len(next) == atOnce {
			if err := evaluate(); err != nil {
				return err
			}
		}
	}
	return evaluate()
}

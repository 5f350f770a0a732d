package app

import (
	"context"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/control/scan"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/updaterequest/execute"
)

// The tables of this file are the table of contents of the control half: each process runs the rows of its table. A row without an owner runs
// in every replica. What answers requests (packages admission and dashboard) has no row, except where it starts and ends with the rows.

// on and one shorten the rows.
func on(sources ...controller.Source) []controller.Source { return sources }

var one = controller.Singleton

// rows are the rows of every process, whichever controllers it has.
func (b *base) rows() []controller.Row {
	return []controller.Row{
		{Name: "api-server-versions", Reconcile: one(b.servers.Once)},
		{Name: "api-server-answers", Reconcile: one(b.reach.Once)},
	}
}

// first are the rows of every controller that begin before its caches are filled: the data of lookups, for which filling waits.
func (p *process) first() []controller.Row { return p.lookedUp }

// common are the rows of every controller that evaluates policies.
func (p *process) common() []controller.Row {
	return append([]controller.Row{missingKinds(p.intake, p.kindsDefined), servedKinds(p.discovery, p.kindsDefined), p.unexempted.Row()}, p.approvalKeys...)
}

// rows are the rows of the admission controller: what its answers need, and the objects of the API server that make it ask us.
func (p *admitting) rows() []controller.Row {
	configurations := p.webhookReconciler()
	rows := []controller.Row{
		forgotten(p.catalog, p.observing),
		{Name: "role-bindings", Sources: on(p.catalog, p.configured), Reconcile: one(p.cluster.Bindings(p.rolesNeeded))},
		{Name: "installation", Sources: on(p.installation.Leaving), Reconcile: one(p.installation.Remove)},
		{Name: "update-requests", Sources: on(p.waiting), Reconcile: one(p.work.Reconcile)},
		{Name: "webhooks", Owner: controller.Leader, Sources: on(p.policiesChanged), Reconcile: one(configurations.Once)},
		{Name: "heartbeat", Owner: controller.Leader, Reconcile: one(p.heartbeat.Once)},
		{Name: telemetry.GlobalsName, Owner: controller.Leader, Sources: on(p.globals.Changed), Reconcile: one(p.globals.Reconcile(configurations.Status))},
		{Name: "admissionpolicy-generator", Owner: controller.Leader, Sources: on(p.catalog), Reconcile: one(p.nativeReconciler(configurations).Once)},
		p.certs.Watch(), p.paths.Watch(), p.paths.Led(), p.exceeded.Row(),
	}
	if f := p.flags.exceptions; f.On() {
		p.observing.Metrics.Exceptions(func() map[string]int {
			return status.ExceptionStates(p.catalog.Snapshot(), len(p.exceptions.Pending()))
		})
		rows = append(rows, status.ExceptionsEnding(p.catalog, p.exceptions.Pending, p.events), p.used.Row())
		if f.Approval {
			rows = append(rows, p.approvals.Row(), p.approvals.Renew(p.catalog.Snapshot))
		}
	}
	return slices.Concat(rows, p.common(), p.sending.Rows(), p.renewal, p.certs.Renew())
}

// rows are the rows of the background controller: the work of generate and mutate-existing rules.
func (c *background) rows() []controller.Row {
	rows := []controller.Row{
		forgotten(c.catalog, c.observing),
		{Name: "ring", Sources: on(controller.Forever(c.ring.Run))},
		{Name: execute.WorkerName, Owner: controller.Inside(c.ring), Sources: on(c.requests), Reconcile: c.worker.Reconcile, Workers: c.flags.background.workers},
		{Name: "executed-work-record", Owner: controller.Inside(c.ring), Sources: on(&c.worker.Executed.Changed), Reconcile: one(c.worker.Executed.Reconcile)},
		{Name: "policies-seen", Sources: on(controller.Forever(func(ctx context.Context) { c.catalog.Follow(ctx, c.follower.See) }))},
		{Name: "policy-controller", Owner: controller.Leader, Sources: on(c.catalog, c.kindsDefined), Reconcile: one(c.follower.Once)},
		c.standby, c.exceeded.Row(),
	}
	return slices.Concat(rows, c.record.Rows(c.follower, c.catalog), c.sending.Rows(), c.common())
}

// rows are the rows of the reports controller: scans, reports, and with them the dashboard and the store of decisions.
func (c *reporting) rows() []controller.Row {
	rows := []controller.Row{
		forgotten(c.catalog, c.observing),
		{Name: "scanned-kinds", Owner: controller.Leader, Reconcile: one(c.merging.Announce)},
		c.exceeded.Row(),
	}
	if c.flags.scans() {
		rows = append(append(rows, c.scanner.Rows()...),
			controller.Row{Name: "policy-status", Owner: controller.Leader, Sources: on(c.omitted), Reconcile: one(scan.WriteOmissions(c.scanner, c.policies, c.manager.GetClient()))})
	} else if c.consumer != nil {
		rows = append(rows, controller.Row{Name: "reports-prune", Sources: on(c.catalog), Reconcile: one(c.merging.Prune(c.writer))})
	}
	if c.exempt != nil {
		rows = append(rows, c.exempt.Row())
	}
	if c.consumer != nil {
		rows = append(rows, c.consumer.Row())
	}
	if c.flags.scans() || c.consumer != nil {
		rows = append(rows, controller.Row{Name: "ring", Sources: on(controller.Forever(c.ring.Run))})
		if c.writer != nil {
			rows = append(rows, controller.Row{Name: "reports", Sources: c.writer.Sources()})
		}
	}
	return slices.Concat(rows, c.common(), c.served)
}

// rows are the rows of the cleanup controller: what deletes objects, its webhooks, and the watch over the admission controller.
func (c *cleaning) rows() []controller.Row {
	rows := []controller.Row{
		{Name: "ring", Sources: on(controller.Forever(c.ring.Run))},
		{Name: "cleanup-webhooks", Owner: controller.Leader, Sources: on(c.webhooks.Changed), Reconcile: one(c.webhooks.Once)},
		c.deletion.Row(), c.standby, c.certs.Watch(), c.paths.Watch(), c.paths.Led(),
	}
	if grace := c.flags.cleanup.grace(); grace > 0 {
		rows = append(rows, controller.Row{Name: "dead-man", Owner: controller.Leader, Reconcile: one(c.deadMan(grace).Once)})
	}
	return slices.Concat(rows, c.common(), c.ttl.Rows(), c.certs.Renew())
}

// forgotten returns the row that makes metrics forget policies that no longer exist.
func forgotten(c *catalog.Catalog, o *telemetry.Telemetry) controller.Row {
	return controller.Row{Name: "policy-metrics", Sources: on(controller.Forever(func(ctx context.Context) { c.Follow(ctx, func(*catalog.Snapshot) { o.Metrics.Forget() }) }))}
}

// missingKinds returns the row that checks for kinds that are not defined. defined is fired when the served kinds change.
func missingKinds(k *intake.Kinds, defined *controller.Signal) controller.Row {
	return controller.Row{Name: "optional-kinds", Sources: on(defined), Reconcile: one(k.Again)}
}

// servedKinds returns the row that fetches the served kinds after a change, until the API server lists all of them, and when the list is old. What
// uses them asks for them once for each change, and gets the old ones while the API server does not answer. The change of the list fires defined again.
func servedKinds(d *discovery.Discovery, defined *controller.Signal) controller.Row {
	return controller.Row{Name: "served-kinds", Sources: on(defined), Collect: time.Second, Reconcile: one(d.Refresh)}
}

package app

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/app/telemetry"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/updaterequest/execute"
	"ephor.invalid/ephor/internal/updaterequest/follow"
)

// The tables of this file are the table of contents of the control half: each process runs the rows of its table. A row without an owner runs
// in every replica. What answers requests (packages admission and dashboard) has no row, except where it starts and ends with the rows.

// on and one shorten the rows.
func on(sources ...controller.Source) []controller.Source { return sources }

var one = controller.Singleton

// rows are the rows of the admission controller: what its answers need, and the objects of the API server that make it ask us.
func (p *process) rows() []controller.Row {
	configurations := p.webhookReconciler()
	rows := []controller.Row{
		{Name: "policy-metrics", Sources: on(forgotten(p.catalog, p.observing))},
		{Name: "role-bindings", Sources: on(p.catalog, p.configured), Reconcile: one(p.watchBindings)},
		{Name: "installation", Sources: on(p.installation.Leaving), Reconcile: one(p.installation.Remove)},
		{Name: "update-requests", Sources: on(p.waiting), Reconcile: one(p.work.Reconcile)},
		{Name: "webhooks", Owner: controller.Leader, Sources: on(p.policiesChanged), Reconcile: one(configurations.Once)},
		{Name: "heartbeat", Owner: controller.Leader, Reconcile: one(p.heartbeat.Once)},
		{Name: telemetry.GlobalsName, Owner: controller.Leader, Sources: on(p.globals.Changed), Reconcile: one(p.globals.Reconcile(configurations.Status))},
		{Name: "admissionpolicy-generator", Owner: controller.Leader, Sources: on(p.catalog), Reconcile: one(p.nativeReconciler(configurations).Once)},
		p.certs.Watch(), p.paths.Watch(), p.paths.Led(),
		missingKinds(p.intake, p.kindsDefined), p.exceeded.Row(), p.unexempted.Row(),
	}
	if p.flags.exceptions.on() {
		p.observing.Metrics.Exceptions(func() map[string]int { return exceptionStates(p.catalog.Snapshot(), len(p.exceptions.Pending())) })
		rows = append(rows, p.exceptionsEnding())
		if p.flags.exceptions.approval {
			rows = append(rows, p.approvals.Row(), p.approvals.Renew(p.catalog.Snapshot))
		}
	}
	if p.sending != nil {
		rows = append(rows, controller.Row{Name: "reports-controller", Sources: on(controller.Forever(p.sending.Follow))})
	}
	if p.renewSender != nil {
		rows = append(rows, *p.renewSender)
	}
	return append(rows, p.certs.Renew()...)
}

// rows are the rows of the background controller: the work of generate and mutate-existing rules.
func (c *background) rows() []controller.Row {
	watches := &controller.Group[schema.GroupVersionResource]{}
	watcher := &follow.Watcher{Follower: c.follower, Watch: c.record.watch, Want: func(want map[schema.GroupVersionResource]func(context.Context)) {
		sources := map[schema.GroupVersionResource]controller.Source{}
		for gvr, follow := range want {
			sources[gvr] = controller.Forever(follow)
		}
		watches.Set(sources)
	}, Wake: c.record.changed.Fire, Log: c.log}
	return []controller.Row{
		{Name: "policy-metrics", Sources: on(forgotten(c.catalog, c.base.observing))},
		{Name: "ring", Sources: on(controller.Forever(c.ring.Run))},
		{Name: "reports-controller", Sources: on(controller.Forever(c.sending.Follow))},
		{Name: execute.WorkerName, Owner: controller.Shared(anyKey{c.ring}, nil), Sources: on(c.requests), Reconcile: c.worker.Reconcile, Workers: c.flags.workers},
		{Name: "generated-objects-record", Sources: on(c.record.changed, controller.Forever(c.record.run)), Reconcile: one(c.record.origin.Reconcile)},
		{Name: "executed-work-record", Owner: controller.Shared(anyKey{c.ring}, nil), Sources: on(&c.worker.Executed.Changed), Reconcile: one(c.worker.Executed.Reconcile)},
		{Name: "policies-seen", Sources: on(controller.Forever(func(ctx context.Context) { c.catalog.Follow(ctx, c.follower.See) }))},
		{Name: "policy-controller", Owner: controller.Leader, Sources: on(c.catalog, c.kindsDefined), Reconcile: one(c.follower.Once)},
		{Name: "generated-objects", Owner: controller.Leader, Sources: on(c.catalog, c.record.changed, watches), Reconcile: one(watcher.Once)},
		c.standby, missingKinds(c.intake, c.kindsDefined), c.exceeded.Row(), c.unexempted.Row(),
	}
}

// rows are the rows of the reports controller: scans, reports, and with them the dashboard and the store of decisions.
func (c *reporting) rows() []controller.Row {
	rows := []controller.Row{
		{Name: "policy-metrics", Sources: on(forgotten(c.catalog, c.base.observing))},
		{Name: "scanned-kinds", Owner: controller.Leader, Reconcile: one(c.announcing())},
		missingKinds(c.intake, c.kindsDefined), c.exceeded.Row(), c.unexempted.Row(),
	}
	if c.flags.scans() {
		rows = append(append(rows, c.scanner.Rows()...),
			controller.Row{Name: "policy-status", Owner: controller.Leader, Sources: on(c.omitted), Reconcile: one(c.writeOmissions)})
	} else if c.consumer != nil {
		rows = append(rows, controller.Row{Name: "reports-prune", Sources: on(c.catalog), Reconcile: one(c.prune)})
	}
	if c.consumer != nil {
		rows = append(rows, controller.Row{Name: reports.ConsumerName, Sources: c.consumer.Sources()})
	}
	if c.flags.scans() || c.consumer != nil {
		rows = append(rows, controller.Row{Name: "ring", Sources: on(controller.Forever(c.ring.Run))})
		if c.writer != nil {
			rows = append(rows, controller.Row{Name: "reports", Sources: c.writer.Sources()})
		}
	}
	return append(rows, c.served...)
}

// rows are the rows of the cleanup controller: what deletes objects, its webhooks, and the watch over the admission controller.
func (c *cleanup) rows() []controller.Row {
	rows := []controller.Row{
		{Name: "ring", Sources: on(controller.Forever(c.ring.Run))},
		{Name: "cleanup-webhooks", Owner: controller.Leader, Sources: on(c.webhooks.Changed), Reconcile: one(c.webhooks.Once)},
		c.policies.Row(), c.standby, c.certs.Watch(), c.paths.Watch(), c.paths.Led(), missingKinds(c.intake), c.unexempted.Row(),
	}
	if grace := c.flags.grace(); grace > 0 {
		rows = append(rows, controller.Row{Name: "dead-man", Owner: controller.Leader, Reconcile: one(c.deadMan(grace).Once)})
	}
	return slices.Concat(rows, c.ttl.Rows(), c.certs.Renew())
}

// forgotten returns a source that makes metrics forget policies that no longer exist.
func forgotten(c *catalog.Catalog, o *telemetry.Telemetry) controller.Source {
	return controller.Forever(func(ctx context.Context) { c.Follow(ctx, func(*catalog.Snapshot) { o.Metrics.Forget() }) })
}

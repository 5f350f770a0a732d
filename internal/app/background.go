package app

import (
	"context"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/control/generated"
	"ephor.invalid/ephor/internal/control/reports"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/control/work"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/lookups"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/execute"
	"ephor.invalid/ephor/internal/updaterequest/follow"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// backgroundLease is the name of the background controller's lease.
const backgroundLease = "kyverno-background-controller"

// background is the state of the background controller, which executes the work of requests and policies.
type background struct {
	*process
	worker   *execute.Worker
	follower *follow.Follower
	ring     *ring.Ring
	standby  controller.Row
	sending  *reports.Sending
	record   *generated.Record
	requests *controller.Signal // the names of UpdateRequests
	exceeded *status.Exceeded
}

// runBackground runs the background controller. It returns when ctx is done and the controller has shut down in order.
func runBackground(ctx context.Context, f *flags, e env, b *base) error {
	objects := work.Cached(e.namespace)
	maps.Copy(objects, definitions())
	p, err := newProcess(f, e, b, parts{
		schemes: []func(*runtime.Scheme) error{kyvernov2.AddToScheme}, objects: objects, reporter: event.GenerateController,
		policies: intake.PolicyOptions{Kinds: intake.Requests(), Compile: family.Options{Types: knownTypes}},
	})
	if err != nil {
		return err
	}
	b.observing.ObservePolicies(p.policies)
	c := &background{process: p, requests: &controller.Signal{}}
	defer work.LeavePending(b.cfg, p.manager.GetRESTMapper(), e.namespace, b.log)
	return p.run(ctx, backgroundLease, controller.Process{
		Build: c.build, Fill: c.watch, Rows: func(context.Context) ([]controller.Row, error) { return c.rows(), nil },
		Last: []func(context.Context){
			func(ctx context.Context) { c.sending.End(ctx) }, func(ctx context.Context) { c.record.End(ctx) }, func(ctx context.Context) { c.worker.Executed.End(ctx) },
		},
	})
}

// build creates the worker, the follower and the parts that they need.
func (c *background) build(ctx context.Context) error {
	root, err := c.world(lookups.Options{Registry: &c.flags.registry})
	if err != nil {
		return err
	}
	writer, _, err := c.workClient()
	if err != nil {
		return err
	}
	account, err := lookups.Account(ctx, c.manager)
	if err != nil {
		return err
	}
	if c.ring, err = c.newRing(execute.WorkerName); err != nil {
		return err
	}
	if c.standby, err = c.standingBy(backgroundLease, c.ring); err != nil {
		return err
	}
	if c.sending, err = reports.NewSending(c.base.cfg, c.manager.GetRESTMapper(), c.observing, ephemeral.Background, c.flags.background.maxReports, &c.flags.reporting); err != nil {
		return err
	}
	marks := keystore.NewCached(writer, writer, c.env.namespace, keystore.Marks)
	if _, err := marks.Fresh(ctx); err != nil {
		return fmt.Errorf("read the keys of generated objects: %w", err) // fail at the start instead of with the first work
	}
	if c.record, err = generated.NewRecord(ctx, c.base.metadataConfig, c.env.namespace, writer, c.log); err != nil {
		return err
	}
	c.exceeded = status.NewExceeded(c.policies, c.manager.GetClient(), c.log)
	made := &origin.Objects{Client: writer, Keys: marks.Keys, Record: c.record.Record, Find: c.kinds, Events: c.events, Log: c.log}
	stored := updaterequest.StoredIn(writer)
	c.worker = execute.NewWorker(execute.WorkerOptions{
		Client: writer, Made: made, Namespace: c.env.namespace, Account: account, Snapshot: c.catalog.Snapshot, Stored: stored, Root: root,
		Conf: c.conf, Labels: c.cluster.NamespaceLabels, Eval: c.eval(),
		Events: c.events, Observer: c.exceeded.Worked(observe.Work{Metrics: c.observing.Metrics}), Reports: c.sending, Share: c.ring, Queue: c.requests.Add, Log: c.log, Now: time.Now,
	})
	c.follower = &follow.Follower{
		Client: writer, Made: made, Namespace: c.env.namespace, Snapshot: c.catalog.Snapshot, Stored: stored, Rules: c.worker.Planner,
		Every: c.flags.background.interval, Events: c.events, Observer: c.observing.Metrics, Log: c.log, Now: time.Now,
		Threshold: func() int { return c.settings.Load().UpdateRequestThreshold },
	}
	return nil
}

// kinds returns the kinds that a kind selector selects, each in one version.
func (c *background) kinds(t policy.Target) ([]schema.GroupVersionKind, error) {
	found, err := c.discovery.Find(t.WithoutSubresource())
	return discovery.KindsOf(found), err
}

// watch fills the caches.
func (c *background) watch(ctx context.Context) error {
	return c.fill(ctx, toolscache.ResourceEventHandlerFuncs{}, func() {}, c.policies.Watches(), work.Watch(c.worker, c.observing.Metrics))
}

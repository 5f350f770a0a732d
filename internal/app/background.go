package app

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
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
	*evaluator
	flags    *backgroundFlags
	worker   *execute.Worker
	follower *follow.Follower
	ring     *ring.Ring
	standby  controller.Row
	sending  *results.Sending
	record   *record
	requests *controller.Signal // the names of UpdateRequests
	exceeded *status.Exceeded

	unexempted *status.ExceptionErrors
}

// runBackground runs the background controller. It returns when ctx is done and the controller has shut down in order.
func runBackground(ctx context.Context, f *backgroundFlags, e env, b *base) error {
	v, err := newEvaluator(&f.evaluatorFlags, e, b, cached{
		schemes: []func(*runtime.Scheme) error{kyvernov2.AddToScheme},
		objects: map[client.Object]cache.ByObject{
			updateRequestObject(): {Namespaces: map[string]cache.Config{e.namespace: {}}, Transform: onlyGeneration},
		},
	}, family.Options{Types: knownTypes})
	if err != nil {
		return err
	}
	b.observing.ObservePolicies(v.policies)
	c := &background{evaluator: v, flags: f, requests: &controller.Signal{}}
	defer leavePending(b, e, b.log)
	return v.run(ctx, backgroundLease, f.probeFlags, controller.Process{
		Build: c.build, Fill: c.watch, Rows: func(context.Context) ([]controller.Row, error) { return c.rows(), nil },
		Last: []func(context.Context){
			func(ctx context.Context) { c.sending.Run(ctx) }, func(ctx context.Context) { c.record.origin.End(ctx) }, func(ctx context.Context) { c.worker.Executed.End(ctx) },
		},
	})
}

// build creates the worker, the follower and the parts that they need.
func (c *background) build(ctx context.Context) error {
	root, err := c.world(ctx)
	if err != nil {
		return err
	}
	writer, err := c.client()
	if err != nil {
		return err
	}
	who, err := account(ctx, c.manager)
	if err != nil {
		return err
	}
	if c.ring, err = newRing(c.base, c.env, execute.WorkerName); err != nil {
		return err
	}
	if c.standby, err = standingBy(c.base, c.env, backgroundLease, c.ring); err != nil {
		return err
	}
	c.sending, err = results.NewSending(results.SendingOptions{
		Config: c.base.cfg, Namespace: c.env.namespace, Source: ephemeral.Background, Max: c.flags.maxReports, Flags: &c.flags.reporting,
		Metrics: c.base.observing.Metrics, Log: c.base.log,
	})
	if err != nil {
		return err
	}
	observing := c.base.observing
	marks := newKeys(&keystore.Store{Client: writer, Reader: writer, Namespace: c.env.namespace, Name: keystore.Marks})
	if _, err := marks.get(ctx, true); err != nil {
		return err // fail at the start instead of with the first work
	}
	if c.record, err = newRecord(ctx, c.base, c.env.namespace, writer); err != nil {
		return err
	}
	c.exceeded = status.NewExceeded(c.policies, c.manager.GetClient(), c.log)
	c.unexempted = status.NewExceptionErrors(c.manager.GetClient(), c.events, event.GenerateController, observing.Metrics, c.log)
	made := &origin.Objects{Client: writer, Keys: marks.get, Record: c.record.origin, Find: c.kinds, Events: c.events, Log: c.log}
	stored := updaterequest.StoredIn(writer)
	c.worker = execute.NewWorker(execute.WorkerOptions{
		Client: writer, Made: made, Namespace: c.env.namespace, Account: who, Snapshot: c.catalog.Snapshot, Stored: stored, Root: root,
		Conf: c.conf, Labels: c.cluster.NamespaceLabels, Eval: c.unexempted.Eval(observing.Tracer.Eval(engine.Eval)),
		Events: c.events, Observer: c.exceeded.Worked(observe.Work{Metrics: observing.Metrics}), Reports: c.sending, Share: c.ring, Queue: c.requests.Add, Log: c.log, Now: time.Now,
	})
	c.follower = &follow.Follower{
		Client: writer, Made: made, Namespace: c.env.namespace, Snapshot: c.catalog.Snapshot, Stored: stored, Rules: c.worker.Planner,
		Every: c.flags.interval, Events: c.events, Observer: observing.Metrics, Log: c.log, Now: time.Now,
		Threshold: func() int { return c.settings.Load().UpdateRequestThreshold },
	}
	return nil
}

// kinds returns the kinds that a kind selector selects, each in one version.
func (c *background) kinds(t policy.Target) ([]schema.GroupVersionKind, error) {
	found, err := c.discovery.Find(t.WithoutSubresource())
	return discovery.KindsOf(found), err
}

func updateRequestObject() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kyvernov2.GroupVersion.WithKind("UpdateRequest"))
	return o
}

// onlyGeneration reduces an UpdateRequest to its identity, its generation and its labels.
func onlyGeneration(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		key := updaterequest.KeyOf(o)
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation}
		if key != "" {
			o.Labels = map[string]string{updaterequest.LabelKey: key}
		}
	}
	return obj, nil
}

// watch fills the caches.
func (c *background) watch(ctx context.Context) error {
	add := func(obj any) {
		if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
			c.worker.Add(o.Name, updaterequest.KeyOf(o))
		}
	}
	exist := 0 // an informer reports objects one by one
	counted := func(more int) {
		exist += more
		c.base.observing.Metrics.UpdateRequests(exist)
	}
	counted(0)
	requests := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			counted(1)
			add(obj)
		},
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*metav1.PartialObjectMetadata)
			after, also := obj.(*metav1.PartialObjectMetadata)
			if ok && also && (before.Generation != after.Generation || before.UID != after.UID) {
				add(obj)
			}
		},
		DeleteFunc: func(obj any) {
			counted(-1)
			if name, err := toolscache.DeletionHandlingObjectToName(obj); err == nil {
				c.worker.Forget(name.Name)
			}
		},
	}
	return c.fill(ctx, toolscache.ResourceEventHandlerFuncs{}, func() {}, intake.Watch{Object: updateRequestObject(), Handler: requests})
}

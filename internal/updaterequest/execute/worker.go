package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/lock"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
	"ephor.invalid/ephor/internal/world"
)

// WorkerName is the controller's name in metrics.
const WorkerName = "background-controller"

// WorkerObserver counts events of a Worker; nil for none.
type WorkerObserver interface {
	// Evaluated is called with the outcome of each evaluation.
	Evaluated(*policy.Outcome)
	// Requeued is called after a failed attempt, with the number of consecutive failures. Dropped is called when there will be no further
	// attempt.
	Requeued(controller string, failures int)
	Dropped(controller string)
}

// WorkerOptions are the dependencies of a Worker.
type WorkerOptions struct {
	// Client must read without a cache, and its scheme must contain kyverno.io/v2.
	Client client.Client
	// Made are the generated objects.
	Made *origin.Objects
	// Namespace is the namespace of UpdateRequests.
	Namespace string
	// Account is our own user name at the API server; empty if unknown.
	Account  string
	Snapshot func() *catalog.Snapshot
	// Stored reads policies from the API server (updaterequest.StoredIn). If it is nil, the worker cannot tell a deleted policy from one that only other
	// replicas know so far.
	Stored updaterequest.Stored
	// Root is the World of policies; Conf returns their settings.
	Root world.Root
	Conf func() policy.Conf
	// Labels returns the labels of a namespace.
	Labels func(ctx context.Context, namespace string) (map[string]string, error)
	// Eval evaluates rules; nil for engine.Eval.
	Eval     func(context.Context, engine.Input) policy.Outcome
	Events   event.Recorder
	Observer WorkerObserver
	Reports  Reporter
	// Share determines which part of the work belongs to this replica; nil for all of it.
	Share Share
	// Queue makes the row of the Worker call Reconcile for the UpdateRequest of that name. It does not block.
	Queue func(name string)
	Log   *slog.Logger
	Now   func() time.Time
}

const (
	// patience is how long the work waits for the object of its request, because UpdateRequests are written before the API server
	// stores or rejects the object, which takes it at most 34 seconds.
	patience = 35 * time.Second
	// policyPatience is how long the work waits for a policy that only another replica has so far, before it looks whether the policy exists.
	// catalogPatience is how long it then waits for a policy that exists. After an outage, a watch pauses for up to a minute.
	policyPatience, catalogPatience = 5 * time.Second, 2 * time.Minute
	// firstRetry and longestRetry are the shortest and longest pause between two attempts. maxRetries is the number of attempts.
	firstRetry, longestRetry, maxRetries = 500 * time.Millisecond, time.Minute, 10
	// firstLook and longestLook are the shortest and longest pause between two checks of an object for which the work waits.
	firstLook, longestLook = 50 * time.Millisecond, 2 * time.Second
	// keepFailed is how long a failed UpdateRequest is kept for inspection. It counts towards the threshold.
	keepFailed = time.Hour
	// maxFailed is the maximum number of failed UpdateRequests that are kept, so that there is room for new work.
	maxFailed  = 100
	sweepEvery = 10 * time.Minute
	// parallel is the number of rules or triggers of one UpdateRequest that are executed in parallel.
	parallel = 4
)

// Worker executes UpdateRequests. Its methods are safe for concurrent use.
type Worker struct {
	WorkerOptions
	keys lock.Keyed // by Key: creations and deletions for one trigger cannot overtake each other

	read    *reader
	Planner *Planner
	apply   *applier
	end     *finisher
	report  *reporter
	// Executed is the record of the work of mutate rules.
	Executed *Executed
}

// NewWorker returns a Worker. It does nothing until Reconcile is called.
func NewWorker(o WorkerOptions) *Worker {
	if o.Eval == nil {
		o.Eval = engine.Eval
	}
	if o.Events == nil {
		o.Events = event.Discard
	}
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	if o.Share == nil {
		o.Share = ring.Alone{}
	}
	read := &reader{client: o.Client, account: o.Account, conf: o.Conf, labels: o.Labels}
	report := &reporter{events: o.Events, reports: o.Reports, read: read, log: o.Log}
	return &Worker{
		WorkerOptions: o, read: read, report: report, Executed: newExecuted(&o),
		Planner: &Planner{
			read: read, made: o.Made, sources: newSources(o.Client, o.Now), root: o.Root, eval: o.Eval, evaluated: o.Observer.Evaluated, now: o.Now, log: o.Log,
		},
		apply: &applier{client: o.Client, made: o.Made, report: report, log: o.Log},
		end:   &finisher{client: o.Client, namespace: o.Namespace, read: read, observer: o.Observer, log: o.Log, now: o.Now, progress: map[string]*progress{}, retried: map[string]int{}},
	}
}

type unobserved struct{}

func (unobserved) Evaluated(*policy.Outcome) {}
func (unobserved) Requeued(string, int)      {}
func (unobserved) Dropped(string)            {}

// Add queues the UpdateRequest of that name, unless its key (KeyOf) belongs to another replica.
func (w *Worker) Add(name, key string) {
	if key == "" || w.Share.Owns(key) { // all UpdateRequests are queued again when the Share changes
		w.Queue(name)
	}
}

// Forget discards the state of a deleted UpdateRequest.
func (w *Worker) Forget(name string) { w.end.forget(name) }

// Reconcile handles the UpdateRequest of that name once, and returns when to handle it again; 0 means not before the next event. With an empty
// name it queues all UpdateRequests.
func (w *Worker) Reconcile(ctx context.Context, name string) (again time.Duration, err error) {
	if name == "" {
		return sweepEvery, w.sweep(ctx)
	}
	u := &kyvernov2.UpdateRequest{}
	err = w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, u)
	switch {
	case apierrors.IsNotFound(err):
		w.end.forget(name)
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read UpdateRequest %s: %w", name, err)
	case u.DeletionTimestamp != nil, u.Status.State == kyvernov2.Skip:
		return 0, nil
	case updaterequest.KeyOfRules(u) != "" && !w.ours(u):
		return 0, nil // another replica holds its key
	case u.Status.State == kyvernov2.Completed:
		return w.end.finish(ctx, u)
	case u.Status.State == kyvernov2.Failed && u.Status.ObservedGeneration == u.Generation:
		if !w.ours(u) {
			return 0, nil
		}
		return w.end.expire(ctx, u, w.Snapshot().Get(updaterequest.PolicyID(u.Spec.RequestType, u.Spec.Policy)) != nil)
	}
	p := w.end.progressOf(u)
	waiting, elsewhere, failed := w.carryOut(ctx, u, p)
	if waiting || elsewhere || failed != nil {
		w.end.recordWritten(ctx, u, p)
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err() // another replica continues
	case failed != nil && p.separable(u, failed):
		return w.end.separate(ctx, u, p, failed)
	case failed != nil:
		return w.end.failed(ctx, u, failed)
	case waiting:
		return p.pause(max(longestLook, w.Now().Sub(p.since)/4)), nil
	case elsewhere:
		return w.end.divide(ctx, u, p)
	}
	return w.end.finish(ctx, u)
}

// carryOut executes the remaining work. The error joins the failures. waiting reports that some work must wait, and elsewhere that other
// replicas have a share.
func (w *Worker) carryOut(ctx context.Context, u *kyvernov2.UpdateRequest, p *progress) (waiting, elsewhere bool, failed error) {
	todo := updaterequest.Rules(&u.Spec)
	tasks, errs := make([]*task, len(todo)), make([]error, len(todo))
	waited, hops := w.Now().Sub(p.since), w.read.hops(u)
	triggers := make([]kyvernov2.ResourceSpec, len(todo))
	for i := range todo {
		triggers[i] = todo[i].Trigger
	}
	reads, mutates := w.read.reads(triggers), updaterequest.Mutates(u.Spec.RequestType)
	for i, r := range todo {
		if p.done[r] {
			continue
		}
		tasks[i] = &task{u: u, RuleContext: r, reads: reads, waited: waited, conflicts: p.conflicts, hops: hops}
		if mutates {
			tasks[i].written = p.writtenBy(u, r)
		}
	}
	updaterequest.Parallel(len(todo), parallel, func(i int) {
		if tasks[i] != nil {
			errs[i] = w.one(ctx, tasks[i])
		}
	})
	var failures []error
	var lapsed []kyvernov2.RuleContext
	p.failing = nil
	for i, err := range errs {
		var other elsewhereError
		switch {
		case err == nil:
			p.done[todo[i]] = true
		case all(err, isNotYet):
			waiting = true
		case errors.As(err, &other):
			elsewhere = true
		default:
			failures = append(failures, err)
			p.failing = append(p.failing, todo[i])
		}
		if tasks[i] != nil {
			lapsed = append(lapsed, tasks[i].lapsed...)
		}
	}
	if ctx.Err() == nil {
		w.end.lookAgain(ctx, u, lapsed)
	}
	return waiting, elsewhere, errors.Join(failures...)
}

// ours reports whether this replica is responsible for an UpdateRequest as a whole.
func (w *Worker) ours(u *kyvernov2.UpdateRequest) bool {
	return w.Share.Owns(cmp.Or(updaterequest.KeyOfRules(u), u.Name))
}

// sweep queues all UpdateRequests in which this replica may have a share.
func (w *Worker) sweep(ctx context.Context) error {
	kind := updaterequest.MetadataOf(kyvernov2.GroupVersion.WithKind("UpdateRequest"))
	return updaterequest.Each(ctx, w.Client, kind, &client.ListOptions{Namespace: w.Namespace}, func(o *metav1.PartialObjectMetadata) bool {
		w.Add(o.Name, updaterequest.KeyOf(o))
		return true
	})
}

package execute

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
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
	// Reconciled is called after each pass. Requeued is called after a failed pass, with the number of consecutive
	// failures. Dropped is called when there will be no further pass.
	Reconciled(controller string)
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
	// Workers is the number of UpdateRequests that are executed in parallel.
	Workers int
	Log     *slog.Logger
	Now     func() time.Time
}

const (
	// patience is how long the work waits for the object of its request, because UpdateRequests are written before the API server
	// stores or rejects the object.
	patience = 30 * time.Second
	// secretPatience is how long the work of an update waits at first if UpdateRequests do not contain its content (task.awaits): that of Secrets
	// and of large objects.
	secretPatience = 3 * time.Second
	// policyPatience is how long the work waits for a policy that only another replica has so far, before it looks whether the policy exists.
	// catalogPatience is how long it then waits for a policy that exists. After an outage, a watch pauses for up to a minute.
	policyPatience, catalogPatience = 5 * time.Second, 2 * time.Minute
	// firstRetry and longestRetry are the shortest and longest pause between two attempts. maxRetries is the number of attempts.
	firstRetry, longestRetry, maxRetries = 500 * time.Millisecond, time.Minute, 10
	// firstLook and longestLook are the shortest and longest pause between two checks of an object for which the work waits.
	firstLook, longestLook = 50 * time.Millisecond, 2 * time.Second
	// longestError replaces longestLook if an UpdateRequest itself cannot be read or written.
	longestError = 10 * time.Second
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
	seed maphash.Seed
	keys [256]lock.Lock // serializes the work for a policy and trigger

	read    *reader
	Planner *Planner
	apply   *applier
	end     *finisher
	report  *reporter

	mu    sync.Mutex
	queue workqueue.TypedDelayingInterface[string] // nil while the Worker does not run
}

// NewWorker returns a Worker. It does nothing until Run is called.
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
		WorkerOptions: o, seed: maphash.MakeSeed(), read: read, report: report,
		Planner: &Planner{
			read: read, made: o.Made, sources: newSources(o.Client, o.Now), root: o.Root, eval: o.Eval, evaluated: o.Observer.Evaluated, now: o.Now, log: o.Log,
		},
		apply: &applier{client: o.Client, made: o.Made, report: report, log: o.Log},
		end:   &finisher{client: o.Client, namespace: o.Namespace, read: read, observer: o.Observer, log: o.Log, now: o.Now, progress: map[string]*progress{}},
	}
}

type unobserved struct{}

func (unobserved) Evaluated(*policy.Outcome) {}
func (unobserved) Reconciled(string)         {}
func (unobserved) Requeued(string, int)      {}
func (unobserved) Dropped(string)            {}

// Add queues the UpdateRequest of that name while the Worker runs, unless its key (KeyOf) belongs to another replica. It does not block.
func (w *Worker) Add(name, key string) {
	if key != "" && !w.Share.Holds(key) {
		return // all UpdateRequests are checked again when the Share changes
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queue != nil {
		w.queue.Add(name)
	}
}

// Forget discards the state of a deleted UpdateRequest.
func (w *Worker) Forget(name string) { w.end.forget(name) }

// Run executes the existing UpdateRequests, and those that Add queues, until ctx is done.
func (w *Worker) Run(ctx context.Context) error {
	queue := workqueue.NewTypedDelayingQueue[string]()
	w.mu.Lock()
	w.queue = queue
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.queue = nil
		w.mu.Unlock()
	}()
	var running sync.WaitGroup
	for range max(w.Workers, 1) {
		running.Go(func() { w.work(ctx, queue) })
	}
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	changed := w.Share.Changed()
	err := w.sweep(ctx)
	var again <-chan time.Time
	for err == nil && ctx.Err() == nil {
		look := w.look
		select {
		case <-ctx.Done():
			continue
		case <-changed:
			changed = w.Share.Changed()
		case <-again:
		case <-sweep.C:
			look = w.sweep
		}
		again = nil
		if err := look(ctx); err != nil && ctx.Err() == nil {
			w.Log.Warn("UpdateRequests could not be listed", "error", err)
			again = time.After(longestLook)
		}
	}
	queue.ShutDown()
	running.Wait()
	return err
}

func (w *Worker) work(ctx context.Context, queue workqueue.TypedDelayingInterface[string]) {
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			if again := w.pass(ctx, name); again > 0 {
				queue.AddAfter(name, again)
			}
		}
		queue.Done(name)
	}
}

// pass handles one UpdateRequest once, and returns when to handle it again; 0 means not before the next event.
func (w *Worker) pass(ctx context.Context, name string) (again time.Duration) {
	defer w.Observer.Reconciled(WorkerName)
	u := &kyvernov2.UpdateRequest{}
	err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, u)
	switch {
	case apierrors.IsNotFound(err):
		w.end.forget(name)
		return 0
	case err != nil:
		w.Log.Warn("an UpdateRequest could not be read", "name", name, "error", err)
		w.Observer.Requeued(WorkerName, 1)
		return w.end.soon(name, longestError)
	case u.DeletionTimestamp != nil, u.Status.State == kyvernov2.Skip:
		return 0
	case updaterequest.KeyOfRules(u) != "" && !w.ours(u):
		return 0 // another replica holds its key
	case u.Status.State == kyvernov2.Completed:
		return w.end.finish(ctx, u)
	case u.Status.State == kyvernov2.Failed && u.Status.ObservedGeneration == u.Generation:
		return 0
	}
	p := w.end.progressOf(u)
	waiting, elsewhere, failed := w.carryOut(ctx, u, p)
	if waiting || elsewhere || failed != nil {
		w.end.recordWritten(ctx, u, p)
	}
	switch {
	case ctx.Err() != nil:
		return firstRetry // another replica continues
	case failed != nil && p.separable(u, failed):
		return w.end.separate(ctx, u, p, failed)
	case failed != nil:
		return w.end.failed(ctx, u, failed)
	case waiting:
		return p.pause(max(longestLook, w.Now().Sub(p.since)/4))
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
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	waited, hops := w.Now().Sub(p.since), w.read.hops(u)
	triggers := make([]kyvernov2.ResourceSpec, len(todo))
	for i := range todo {
		triggers[i] = todo[i].Trigger
	}
	reads, mutates := w.read.reads(triggers), updaterequest.Mutates(u.Spec.RequestType)
	for i := range todo {
		if p.done[todo[i]] {
			continue
		}
		tasks[i] = &task{u: u, RuleContext: todo[i], reads: reads, waited: waited, conflicts: p.conflicts, executedFor: p.executedFor[todo[i]], hops: hops}
		if mutates {
			tasks[i].written = p.writtenBy(u, todo[i])
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = w.one(ctx, tasks[i])
		})
	}
	running.Wait()
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
			if v := tasks[i].executesFor; v != "" {
				p.executedFor[todo[i]] = v
			}
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
	return w.Share.Holds(cmp.Or(updaterequest.KeyOfRules(u), u.Name))
}

// look queues all UpdateRequests in which this replica may have a share.
func (w *Worker) look(ctx context.Context) error {
	return updaterequest.Each(ctx, w.Client, updaterequest.MetadataOf(kyvernov2.GroupVersion.WithKind("UpdateRequest")), &client.ListOptions{Namespace: w.Namespace},
		func(o *metav1.PartialObjectMetadata) bool {
			w.Add(o.Name, updaterequest.KeyOf(o))
			return true
		})
}

// sweep queues all existing UpdateRequests, and removes those of this replica that failed long ago or whose policy was deleted.
func (w *Worker) sweep(ctx context.Context) error {
	var failed []*kyvernov2.UpdateRequest
	err := updaterequest.Each(ctx, w.Client, &kyvernov2.UpdateRequestList{}, &client.ListOptions{Namespace: w.Namespace}, func(u *kyvernov2.UpdateRequest) bool {
		switch {
		case u.Status.State != kyvernov2.Failed || u.Status.ObservedGeneration != u.Generation:
			w.Add(u.Name, updaterequest.KeyOfRules(u))
		case w.ours(u):
			failed = append(failed, u)
		}
		return true
	})
	w.end.expire(ctx, failed, w.Snapshot())
	return err
}

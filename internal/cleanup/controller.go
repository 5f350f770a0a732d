package cleanup

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/ring"
)

// Observer counts runs and their results. Its methods are safe for concurrent use.
type Observer interface {
	// CleanupDeleted counts a deleted object; CleanupFailed counts an object, or a whole kind, that could not be deleted. what is the kind
	// or the resource, depending on how the family of the policy counts (family.Run.CountsResources).
	CleanupDeleted(p *policy.Program, what, namespace, propagation string)
	CleanupFailed(p *policy.Program, what, namespace, propagation string)
	// CleanupStopped counts a run that deleted nothing because it exceeded the limit of deletions.
	CleanupStopped(p *policy.Program)
	// Reconciled counts a run, Requeued a failed run that will be retried, Dropped a failed run that will not.
	Reconciled(controller string)
	Requeued(controller string, failures int)
	Dropped(controller string)
}

// Options of a Controller.
type Options struct {
	Executor *Executor
	// Client writes the policies' claims and statuses.
	Client client.Client
	// Missing returns the rights that runs of a policy lack; nil to skip this check.
	Missing func(context.Context, *policy.Program) ([]family.MissingRight, error)
	// Current returns a policy with its current exceptions; nil for a deleted policy. Without it, no policy has exceptions.
	Current func(*policy.Program) *policy.Program
	// MaxDeletions stops a run that would delete more objects; 0 for no limit.
	MaxDeletions int
	// Share decides which policies run here, by their UIDs; nil for all of them.
	Share Share
	// Identity is the name of this replica in claims.
	Identity string
	Events   event.Recorder
	Observer Observer
	Log      *slog.Logger
	Now      func() time.Time
}

// Share decides which keys this replica works on if there are several replicas. If two work on the same key, because one was suspended for
// a while, claims and resource versions prevent a second deletion.
type Share interface {
	controller.Share
	// Owns reports whether work on the key may begin in this replica now.
	Owns(key string) bool
	// Lapsed reports whether the time that Hold granted is over.
	Lapsed(held context.Context) bool
}

// Name is the name under which replicas share the policies.
const Name = "cleanup-controller"

const (
	// workers is the number of policies that run at the same time.
	workers = 3
	// maxFailures is the number of attempts before a failed run waits for the next time of the schedule.
	maxFailures = 10
	// The pause after a failed run, or one of an old version of the policy, grows from firstPause to longestPause.
	firstPause   = time.Second
	longestPause = time.Minute
	// The bounds of the wait for the next run: not shorter, to avoid a busy loop, and not longer, since the clock may be set.
	shortestWait = 50 * time.Millisecond
	longestWait  = time.Minute
	// longestRun bounds the duration of a run, so that a run that hangs does not block a worker for ever.
	longestRun = time.Hour
	// clockTolerance is how far the clock of another replica may be ahead. A run that is later was made by a wrong clock, or never.
	clockTolerance = 10 * time.Minute
)

// Controller runs policies when they are due.
type Controller struct {
	Options
	changed controller.Signal

	mu       sync.Mutex
	policies map[string]*policyState
}

// policyState is the state of a policy.
type policyState struct {
	object   *unstructured.Unstructured // the last known version; shared with a cache
	of       *family.Run
	program  *policy.Program    // nil if the policy could not be compiled
	last     time.Time          // the last successful run, as far as this process knows
	stop     context.CancelFunc // ends the current run; nil before the first run
	failures int
	stale    int                // the number of runs in a row that met a newer version of the policy than object
	pause    time.Time          // no attempt before this time
	reported bool               // the status reports a mistake in the policy
	check    time.Time          // when its rights are checked again
	written  []metav1.Condition // the conditions that this process wrote, perhaps newer than object
}

// New returns a Controller without policies.
func New(o Options) *Controller {
	if o.Share == nil {
		o.Share = ring.Alone{}
	}
	return &Controller{Options: o, policies: map[string]*policyState{}}
}

func key(u *unstructured.Unstructured) string {
	return u.GetKind() + "/" + u.GetNamespace() + "/" + u.GetName()
}

// Set adds or updates a policy with its Program, which is nil if the policy could not be compiled.
func (c *Controller) Set(u *unstructured.Unstructured, program *policy.Program) {
	c.mu.Lock()
	old := c.policies[key(u)]
	if old != nil && same(old.object, u) && auditsFirst(old.program) == auditsFirst(program) {
		if old.stale > 0 {
			old.stale, old.pause = 0, time.Time{}
		}
		old.object = u
		c.mu.Unlock()
		c.changed.Add(key(u))
		return
	}
	now := &policyState{object: u, of: runOf(u), program: program, check: c.Now()}
	if old != nil && old.object.GetUID() == u.GetUID() {
		now.last, now.written = old.last, old.written
	}
	old.end() // the policy may no longer select the objects that the run was to delete
	c.policies[key(u)] = now
	c.mu.Unlock()
	c.changed.Add(key(u))
}

// end ends the current run. The caller holds the lock.
func (e *policyState) end() {
	if e != nil && e.stop != nil {
		e.stop()
	}
}

// Delete removes a policy. A run of it that is in progress deletes no further objects.
func (c *Controller) Delete(u *unstructured.Unstructured) {
	c.mu.Lock()
	c.policies[key(u)].end()
	delete(c.policies, key(u))
	c.mu.Unlock()
}

// same reports whether two versions of a policy are the same to a run: it ignores statuses and our own claims.
func same(a, b *unstructured.Unstructured) bool {
	return a.GetUID() == b.GetUID() && a.GetGeneration() == b.GetGeneration() && Previews(a.GetAnnotations()) == Previews(b.GetAnnotations())
}

func auditsFirst(p *policy.Program) bool { return p != nil && p.AuditsFirst }

// Row returns the row that runs policies when they are due.
func (c *Controller) Row() controller.Row {
	return controller.Row{
		Name: "cleanup-policies", Owner: controller.Shared(c.Share, c.shared), Workers: workers,
		Sources: []controller.Source{&c.changed}, Keys: c.keys, Reconcile: c.Reconcile,
	}
}

// keys are the keys of the policies.
func (c *Controller) keys(yield func(string) bool) {
	c.mu.Lock()
	all := slices.Collect(maps.Keys(c.policies))
	c.mu.Unlock()
	for _, key := range all {
		if !yield(key) {
			return
		}
	}
}

// shared returns the text by which replicas share a policy: its UID.
func (c *Controller) shared(key string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.policies[key]; e != nil {
		return string(e.object.GetUID())
	}
	return ""
}

// Reconcile runs a policy if it is due, and returns the time until it is due next.
func (c *Controller) Reconcile(held context.Context, key string) (time.Duration, error) {
	c.mu.Lock()
	e := c.policies[key]
	work, wait := c.next(e)
	if work == nil {
		c.mu.Unlock()
		return wait, nil
	}
	object, began := e.object, c.Now()
	ctx, stop := context.WithTimeout(held, longestRun)
	defer stop()
	e.stop = stop
	c.mu.Unlock()
	out := c.safely(ctx, e, object, work)
	if c.Share.Lapsed(held) {
		out = outcome{stale: true} // the new holder runs it
	}
	if ctx.Err() == nil || out.done {
		if err := c.writeStatus(context.WithoutCancel(ctx), e, object, out, began); err != nil && out.failed == nil {
			out.failed = err
		}
	}
	c.Observer.Reconciled(e.of.Controller)
	c.finish(e, out, began)
	c.mu.Lock()
	defer c.mu.Unlock()
	if work, wait = c.next(c.policies[key]); work != nil {
		wait = shortestWait
	}
	return wait, nil
}

// work is what is done about a policy that is due.
type work func(context.Context, *policyState, *unstructured.Unstructured) outcome

// next returns what is to be done about a policy now; if nothing, it returns the time until it is due, or 0 if only a change can make it due.
// The caller holds the lock.
func (c *Controller) next(e *policyState) (work, time.Duration) {
	if e == nil || e.program == nil || e.program.AuditsFirst {
		return nil, 0
	}
	now := c.Now()
	until := func(at time.Time) time.Duration { return min(max(at.Sub(now), shortestWait), longestWait) }
	if mistakes := e.program.Diags.Errors(); len(mistakes) > 0 || e.program.Schedule == nil {
		switch {
		case e.reported:
			return nil, 0
		case e.pause.After(now):
			return nil, until(e.pause)
		}
		return func(context.Context, *policyState, *unstructured.Unstructured) outcome {
			return outcome{broken: fmt.Errorf("it has a mistake: %w", mistakes.Err())}
		}, 0
	}
	due, do := c.due(e), c.run
	if at, ok := c.checked(e); ok && (due.IsZero() || at.Before(due)) {
		due, do = at, c.checkRights
	}
	switch {
	case due.IsZero(): // the schedule has no further time
		return nil, 0
	case due.After(now):
		return nil, until(due)
	}
	return do, 0
}

// due returns when the policy runs next: at the first time of its schedule after its last run, or after its creation if it never ran, and
// not before a pause is over. Missed times cause one run.
func (c *Controller) due(e *policyState) time.Time {
	var last time.Time
	latest := c.Now().Round(0).Add(clockTolerance) // by the wall clock
	for _, at := range []time.Time{e.last.Round(0), lastExecution(e.object)} {
		if at.After(last) && !at.After(latest) {
			last = at
		}
	}
	if last.IsZero() {
		last = e.object.GetCreationTimestamp().Time
	}
	due := e.program.Schedule.Next(last)
	if !due.IsZero() && due.Before(e.pause) {
		return e.pause
	}
	return due
}

// following returns the next time of the schedule; never if it has no further time, such as one that names a year.
func (e *policyState) following(now time.Time) time.Time {
	if next := e.program.Schedule.Next(now); !next.IsZero() {
		return next
	}
	return never
}

// safely turns a panic into a failure, so that a bug in one run does not stop the others.
func (c *Controller) safely(ctx context.Context, e *policyState, object *unstructured.Unstructured, f work) (out outcome) {
	defer func() {
		if v := recover(); v != nil {
			c.Log.Error("a run panicked", "policy", key(object), "panic", v, "stack", string(debug.Stack()))
			out = outcome{failed: fmt.Errorf("it panicked: %v", v)}
		}
	}()
	return f(ctx, e, object)
}

// outcome is the result of a run.
type outcome struct {
	done    bool              // the run completed
	failed  error             // it failed, and will be retried
	stopped error             // it exceeded the limit of deletions, and waits for the next time of the schedule
	broken  error             // the policy cannot run at all
	stale   bool              // the policy changed in the meantime
	rights  *metav1.Condition // the result of a check of rights, without a run
	lacking bool              // a right is missing
	reason  string
	message string
}

// finish sets the time at which the policy is handled next.
func (c *Controller) finish(e *policyState, out outcome, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Now()
	if out.lacking {
		e.check = now
	}
	switch {
	case out.rights != nil:
		e.check = never
		if out.lacking || out.failed != nil {
			e.check = now.Add(longestWait)
		}
	case out.broken != nil:
		e.reported, e.pause = out.failed == nil, now.Add(longestPause)
	case out.stale:
		// The event of the change will arrive soon, unless the watch is broken.
		e.pause = now.Add(min(firstPause<<e.stale, longestPause))
		e.stale = min(e.stale+1, maxFailures)
	case out.stopped != nil:
		e.failures, e.pause = 0, e.following(now)
	case out.failed != nil:
		e.failures++
		if e.failures >= maxFailures {
			c.Log.Error("a cleanup policy failed and waits for the next time of its schedule", "policy", key(e.object), "attempts", e.failures, "error", out.failed)
			c.Observer.Dropped(e.of.Controller)
			e.failures, e.pause = 0, e.following(now)
			return
		}
		c.Observer.Requeued(e.of.Controller, e.failures)
		pause := min(firstPause<<(e.failures-1), longestPause)
		e.pause = now.Add(pause)
		c.Log.Error("a cleanup policy failed, will try again", "policy", key(e.object), "in", pause, "error", out.failed)
	case out.done:
		e.failures, e.last = 0, began
	}
}

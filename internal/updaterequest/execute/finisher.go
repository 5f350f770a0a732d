package execute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// finisher ends attempts: it removes executed UpdateRequests, divides those that several replicas share, and writes what failed to the status.
// It keeps the progress of those that are not finished.
type finisher struct {
	client    client.Client
	namespace string
	read      *reader
	observer  WorkerObserver
	log       *slog.Logger
	now       func() time.Time

	mu       sync.Mutex
	progress map[string]*progress
	retried  map[string]int // the number of UpdateRequests that wait for a retry, by progress.group
	lost     []string       // failed UpdateRequests, oldest first
}

// finish removes an executed UpdateRequest, unless a request has added work meanwhile.
func (x *finisher) finish(ctx context.Context, u *kyvernov2.UpdateRequest) (again time.Duration, err error) {
	err = x.client.Delete(ctx, u, client.Preconditions{UID: &u.UID, ResourceVersion: &u.ResourceVersion})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		x.forget(u.Name)
		return 0, nil
	case apierrors.IsConflict(err):
		return x.soon(u.Name), nil
	}
	return 0, fmt.Errorf("remove the executed UpdateRequest %s: %w", u.Name, err)
}

// failed writes the reason for a failure to the status, and schedules the next attempt. Conflicts with other writers count as a failure only
// from the sixth attempt in a row on.
func (x *finisher) failed(ctx context.Context, u *kyvernov2.UpdateRequest, why error) (again time.Duration, err error) {
	retries := u.Status.RetryCount
	if u.Status.ObservedGeneration != u.Generation {
		retries = 0 // the work was requested again
	}
	if retries < maxRetries && onlyConflicts(why) && x.conflicts(u.Name) <= updaterequest.Attempts {
		return x.soon(u.Name), nil
	}
	message := value.Message(strings.ToValidUTF8(why.Error(), ""))
	next := u.DeepCopy()
	next.Status.State, next.Status.Message = kyvernov2.Pending, message
	next.Status.ObservedGeneration, next.Status.RetryCount = u.Generation, retries+1
	if retries >= maxRetries || all(why, isHop) {
		next.Status.State = kyvernov2.Failed
	}
	switch err := x.client.Status().Update(ctx, next); {
	case err == nil:
	case apierrors.IsNotFound(err):
		x.forget(u.Name)
		return 0, nil
	case apierrors.IsConflict(err):
		return x.retry(u, retries), nil // if the work was requested again, that change comes at once
	default:
		x.log.Warn("work failed, will retry; its state could not be written", "name", u.Name, "policy", u.Spec.Policy, "error", errors.Join(why, err))
		return x.retry(u, retries), nil
	}
	if next.Status.State == kyvernov2.Failed {
		x.forget(u.Name)
		x.dropOldFailures(ctx, u.Name)
		x.observer.Dropped(WorkerName)
		x.log.Error("work failed, no retries left", "name", u.Name, "policy", u.Spec.Policy, "error", why)
		return 0, nil
	}
	x.observer.Requeued(WorkerName, retries+1)
	x.log.Warn("work failed, will retry", "name", u.Name, "policy", u.Spec.Policy, "retries", retries, "error", why)
	return x.retry(u, retries), nil
}

// retry returns the pause before the next attempt for an UpdateRequest that has failed, after the retries that its status counts. It doubles each time,
// also if the status could not be written. From the second retry on it grows with the number of UpdateRequests of the same policy and namespace that
// wait for theirs, too: they read the same objects, and most likely fail for the same reason.
func (x *finisher) retry(u *kyvernov2.UpdateRequest, retries int) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	waiting := 1
	if p := x.progress[u.Name]; p != nil {
		if p.group == "" {
			p.group = retryGroup(u)
			x.retried[p.group]++
		}
		retries, waiting = max(retries, p.failures), x.retried[p.group]
		p.failures++
	}
	if retries == 0 {
		return firstRetry
	}
	return min(firstRetry<<min(retries, 10)*time.Duration(waiting), longestRetry)
}

// retryGroup identifies the policy of an UpdateRequest and the namespace of its first trigger.
func retryGroup(u *kyvernov2.UpdateRequest) string {
	namespace := ""
	if rules := updaterequest.Rules(&u.Spec); len(rules) > 0 {
		namespace = rules[0].Trigger.Namespace
	}
	return fmt.Sprintf("%q %q %q", u.Spec.RequestType, u.Spec.Policy, namespace)
}

// dropOldFailures remembers an UpdateRequest without remaining retries, and removes the oldest of these beyond maxFailed.
func (x *finisher) dropOldFailures(ctx context.Context, name string) {
	x.mu.Lock()
	x.lost = append(slices.DeleteFunc(x.lost, func(n string) bool { return n == name }), name)
	var oldest []string
	if n := len(x.lost) - maxFailed; n > 0 {
		oldest = slices.Clone(x.lost[:n])
		x.lost = slices.Delete(x.lost, 0, n)
	}
	x.mu.Unlock()
	for _, name := range oldest {
		u := &kyvernov2.UpdateRequest{}
		err := x.client.Get(ctx, client.ObjectKey{Namespace: x.namespace, Name: name}, u)
		if err == nil && u.Status.State == kyvernov2.Failed && u.Status.ObservedGeneration == u.Generation {
			if _, err := x.finish(ctx, u); err != nil {
				x.log.Warn("an UpdateRequest that failed could not be removed", "name", name, "error", err)
			}
		}
	}
}

// onlyConflicts reports whether the only errors are conflicts with other writers, beside work that waits.
func onlyConflicts(err error) bool {
	return all(err, func(err error) bool { return isNotYet(err) || apierrors.IsConflict(err) })
}

// conflicts counts an attempt for an UpdateRequest that ended in conflicts only, and returns their number.
func (x *finisher) conflicts(name string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.progress[name]
	if p == nil {
		return 1
	}
	p.conflicts++
	return p.conflicts
}

// soon returns the pause before the next attempt for an UpdateRequest whose state is not changed. It doubles each time.
func (x *finisher) soon(name string) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.progress[name]
	if p == nil {
		p = newProgress()
		x.progress[name] = p
	}
	return p.pause(longestLook)
}

// meanwhile returns a conflict error for a change that the worker noticed itself: the named object was changed or created during the work.
func meanwhile(what string) error {
	return apierrors.NewConflict(schema.GroupResource{}, what, errors.New("it was changed meanwhile"))
}

// all reports whether f returns true for every joined error.
func all(err error, f func(error) bool) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !all(e, f) {
				return false
			}
		}
		return true
	}
	return f(err)
}

// expire removes an UpdateRequest without remaining retries if it failed long ago or its policy was deleted. The next sweep checks the others.
func (x *finisher) expire(ctx context.Context, u *kyvernov2.UpdateRequest, policyExists bool) (again time.Duration, err error) {
	if !policyExists || x.now().Sub(u.CreationTimestamp.Time) > keepFailed {
		return x.finish(ctx, u)
	}
	x.dropOldFailures(ctx, u.Name)
	return 0, nil
}

// progress is the worker's local state of an UpdateRequest.
type progress struct {
	uid        string // empty until the UpdateRequest is first seen
	generation int64
	since      time.Time
	looks      int
	conflicts  int                            // the attempts that ended in conflicts only
	done       map[kyvernov2.RuleContext]bool // the executed rules
	failing    []kyvernov2.RuleContext        // the rules that failed in the last attempt
	failures   int                            // the attempts that failed
	group      string                         // retryGroup, once it waits for a retry
	// recorded are the changed targets in the annotation of the UpdateRequest, and written are those that rules of this process have changed.
	recorded map[digest]bool
	written  map[kyvernov2.RuleContext]map[digest]bool
	unsure   map[kyvernov2.RuleContext]map[digest]unanswered // see written
}

// pause returns the pause before the next look, which doubles each time up to the given one.
func (p *progress) pause(longest time.Duration) time.Duration {
	p.looks++
	return min(firstLook<<min(p.looks-1, 10), longest)
}

// progressOf returns the progress of an UpdateRequest as it is now.
func (x *finisher) progressOf(u *kyvernov2.UpdateRequest) *progress {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.progress[u.Name]
	if p == nil || p.uid != "" && p.uid != string(u.UID) || p.generation != u.Generation && updaterequest.Asked(u) {
		x.drop(u.Name)
		p = newProgress()
		x.progress[u.Name] = p
	}
	if p.uid == "" {
		p.since = x.now()
	}
	p.uid, p.generation, p.recorded = string(u.UID), u.Generation, writtenIn(u)
	return p
}

func newProgress() *progress {
	return &progress{
		done: map[kyvernov2.RuleContext]bool{}, recorded: map[digest]bool{}, written: map[kyvernov2.RuleContext]map[digest]bool{}, unsure: map[kyvernov2.RuleContext]map[digest]unanswered{},
	}
}

// forget discards the progress of an UpdateRequest.
func (x *finisher) forget(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(name)
}

// drop is forget for callers that hold the lock.
func (x *finisher) drop(name string) {
	if p := x.progress[name]; p != nil && p.group != "" {
		if x.retried[p.group]--; x.retried[p.group] == 0 {
			delete(x.retried, p.group)
		}
	}
	delete(x.progress, name)
}

package execute

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/listwatch"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// finish removes an executed UpdateRequest, unless a request has added work meanwhile.
func (w *Worker) finish(ctx context.Context, u *kyvernov2.UpdateRequest) (again time.Duration) {
	err := w.Client.Delete(ctx, u, client.Preconditions{UID: &u.UID, ResourceVersion: &u.ResourceVersion})
	switch {
	case err == nil, apierrors.IsNotFound(err):
		w.forget(u.Name)
		return 0
	case apierrors.IsConflict(err):
		return w.soon(u.Name, longestLook)
	}
	w.Log.Warn("an executed UpdateRequest could not be removed", "name", u.Name, "error", err)
	w.Observer.Requeued(WorkerName, 1)
	return w.soon(u.Name, longestError)
}

// failed writes the reason for a failure to the status, and schedules the next attempt. Conflicts with other writers count as a failure only
// from the sixth attempt in a row on.
func (w *Worker) failed(ctx context.Context, u *kyvernov2.UpdateRequest, why error) (again time.Duration) {
	retries := u.Status.RetryCount
	if u.Status.ObservedGeneration != u.Generation {
		retries = 0 // the work was requested again
	}
	if retries < maxRetries && onlyConflicts(why) && w.conflicts(u.Name) <= updaterequest.Attempts {
		return w.soon(u.Name, longestLook)
	}
	message := value.Message(strings.ToValidUTF8(why.Error(), ""))
	next := u.DeepCopy()
	next.Status.State, next.Status.Message = kyvernov2.Pending, message
	next.Status.ObservedGeneration, next.Status.RetryCount = u.Generation, retries+1
	if retries >= maxRetries || all(why, isHop) {
		next.Status.State = kyvernov2.Failed
	}
	if err := w.Client.Status().Update(ctx, next); err != nil {
		switch {
		case apierrors.IsNotFound(err):
			w.forget(u.Name)
			return 0
		case apierrors.IsConflict(err):
			return w.soon(u.Name, longestLook)
		}
		w.Log.Warn("the status of an UpdateRequest could not be written", "name", u.Name, "error", err)
		return w.soon(u.Name, longestError)
	}
	if next.Status.State == kyvernov2.Failed {
		w.forget(u.Name)
		w.dropOldFailures(ctx, u.Name)
		w.Observer.Dropped(WorkerName)
		w.Log.Error("work failed, no retries left", "name", u.Name, "policy", u.Spec.Policy, "error", why)
		return 0
	}
	w.Observer.Requeued(WorkerName, retries+1)
	w.Log.Warn("work failed, will retry", "name", u.Name, "policy", u.Spec.Policy, "retries", retries, "error", why)
	return min(firstRetry<<min(retries, 10), longestRetry)
}

// dropOldFailures remembers an UpdateRequest without remaining retries, and removes the oldest of these beyond maxFailed.
func (w *Worker) dropOldFailures(ctx context.Context, name string) {
	w.mu.Lock()
	w.lost = append(slices.DeleteFunc(w.lost, func(n string) bool { return n == name }), name)
	var oldest []string
	if n := len(w.lost) - maxFailed; n > 0 {
		oldest = slices.Clone(w.lost[:n])
		w.lost = slices.Delete(w.lost, 0, n)
	}
	w.mu.Unlock()
	for _, name := range oldest {
		u := &kyvernov2.UpdateRequest{}
		err := w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, u)
		if err == nil && u.Status.State == kyvernov2.Failed && u.Status.ObservedGeneration == u.Generation {
			w.finish(ctx, u)
		}
	}
}

// onlyConflicts reports whether the only errors are conflicts with other writers, beside work that waits.
func onlyConflicts(err error) bool {
	return all(err, func(err error) bool { return isNotYet(err) || apierrors.IsConflict(err) })
}

// conflicts counts an attempt for an UpdateRequest that ended in conflicts only, and returns their number.
func (w *Worker) conflicts(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.progress[name]
	if p == nil {
		return 1
	}
	p.conflicts++
	return p.conflicts
}

// soon returns the pause before the next attempt for an UpdateRequest whose state is not changed. It doubles each time, up to the longest.
func (w *Worker) soon(name string, longest time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.progress[name]
	if p == nil {
		p = newProgress()
		w.progress[name] = p
	}
	return p.pause(longest)
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

// sweep queues all existing UpdateRequests. It removes those that failed long ago and those of deleted policies.
func (w *Worker) sweep(ctx context.Context) error {
	list := &kyvernov2.UpdateRequestList{}
	options := &client.ListOptions{Namespace: w.Namespace, Limit: 100}
	var failed []*kyvernov2.UpdateRequest
	defer func() {
		slices.SortFunc(failed, func(a, b *kyvernov2.UpdateRequest) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		for _, u := range failed {
			w.dropOldFailures(ctx, u.Name)
		}
	}()
	for {
		err := w.Client.List(ctx, list, options)
		if listwatch.GoesOn(err, &options.Continue) {
			continue
		}
		if err != nil {
			return err
		}
		for i := range list.Items {
			u := &list.Items[i]
			if u.Status.State == kyvernov2.Failed && u.Status.ObservedGeneration == u.Generation {
				if !w.ours(u) {
					continue
				}
				if program := w.Snapshot().Get(updaterequest.PolicyID(u.Spec.RequestType, u.Spec.Policy)); program == nil || w.Now().Sub(u.CreationTimestamp.Time) > keepFailed {
					w.finish(ctx, u)
				} else {
					failed = append(failed, u)
				}
				continue
			}
			w.Add(u.Name, updaterequest.KeyOfRules(u))
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
		list = &kyvernov2.UpdateRequestList{}
	}
}

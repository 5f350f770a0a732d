package failopen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/webhookconf"
)

// MinGrace is the shortest grace period: the next leader takes 14 s to take over, and sends a heartbeat every 10 s.
const MinGrace = 30 * time.Second

// Watch checks the heartbeat. Only one Watch may run in a cluster; it keeps its state between rounds.
type Watch struct {
	Client client.Client
	// Live reads directly from the API server, without a cache.
	Live client.Reader
	// Lease is the heartbeat lease and Annotation the stamp on it.
	Lease      client.ObjectKey
	Annotation string
	// Grace is how long the stamp may stay the same.
	Grace time.Duration
	// Now is the clock; it must be monotonic, so that setting the time of day has no effect.
	Now    func() time.Time
	Log    *slog.Logger
	Events event.Recorder // nil for none

	stamp   string
	since   time.Time // when the stamp was first seen
	looked  time.Time // when the stamp was last checked
	moved   bool      // the stamp changed since the first read: a replica answers
	silence bool      // the state that was last logged
}

// period returns the interval between two checks of the lease.
func (w *Watch) period() time.Duration {
	return max(min(w.Grace/6, 5*time.Second), 100*time.Millisecond)
}

// Once checks the lease, and lets the webhooks fail open or closed. It returns when to check again.
func (w *Watch) Once(ctx context.Context) (time.Duration, error) {
	var lease coordinationv1.Lease
	err := w.Live.Get(ctx, w.Lease, &lease)
	if client.IgnoreNotFound(err) != nil {
		w.since = time.Time{} // a failed check says nothing about the stamp
		return 0, fmt.Errorf("read the lease %s: %w", w.Lease, err)
	}
	objects, err := w.configurations(ctx)
	if err != nil {
		return 0, err
	}
	if len(objects) == 0 {
		w.since = time.Time{} // in an unlocked cluster, for example, no review is sent
		return w.period(), nil
	}
	switch verdict, age := w.look(lease.Annotations[w.Annotation], w.Now()); verdict {
	case silent:
		return w.period(), w.silent(ctx, objects, age)
	case answered:
		return w.period(), w.answered(ctx, objects)
	}
	return w.period(), nil
}

// verdict is the result of comparing the stamps.
type verdict string

const (
	unknown  verdict = "unknown" // not known yet
	answered verdict = "answered"
	silent   verdict = "silent"
)

// look compares the stamp with the last one.
func (w *Watch) look(stamp string, now time.Time) (verdict, time.Duration) {
	switch {
	case w.since.IsZero() || now.Sub(w.looked) > 3*w.period():
		// After the first check, or the first one after a pause of this process, the measurement starts anew.
		w.stamp, w.since, w.moved = stamp, now, false
	case stamp != w.stamp:
		w.stamp, w.since, w.moved = stamp, now, true
	}
	w.looked = now
	switch age := now.Sub(w.since); {
	case age >= w.Grace:
		return silent, age
	case w.moved:
		return answered, age
	default:
		return unknown, age
	}
}

// silent lets the webhooks fail open.
func (w *Watch) silent(ctx context.Context, objects []client.Object, age time.Duration) error {
	if !w.silence {
		w.silence = true
		w.Log.Warn("no replica answers reviews: webhooks that fail closed now fail open", "silence", age.Round(time.Second), "lease", w.Lease.String())
	}
	return w.each(ctx, objects, func(o client.Object) bool { return failOpen(o, w.Now()) },
		"WebhooksFailOpen", fmt.Sprintf("no replica has answered reviews for %s: failurePolicy Fail is now Ignore, until one does", age.Round(time.Second)))
}

// answered lets the webhooks fail closed again.
func (w *Watch) answered(ctx context.Context, objects []client.Object) error {
	if w.silence {
		w.silence = false
		w.Log.Info("reviews are answered again: webhooks fail closed as before")
	}
	return w.each(ctx, objects, FailClosed, "WebhooksFailClosed", "reviews are answered again: failurePolicy is Fail as before")
}

// configurations returns the configurations for resources.
func (w *Watch) configurations(ctx context.Context) ([]client.Object, error) {
	all, err := webhookconf.List(ctx, w.Client)
	return slices.DeleteFunc(all, func(o client.Object) bool { return !concerns(o) }), err
}

// each changes configurations. A conflict is not an error: the next round tries again.
func (w *Watch) each(ctx context.Context, objects []client.Object, change func(client.Object) bool, reason, text string) error {
	var errs []error
	for _, o := range objects {
		if !change(o) {
			continue
		}
		err := w.Client.Update(ctx, o)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			continue
		case err != nil:
			errs = append(errs, fmt.Errorf("update the webhook configuration %s: %w", o.GetName(), err))
			continue
		}
		kind := webhookconf.KindOf(o)
		w.Log.Warn("changed the failure policies", "kind", kind, "name", o.GetName(), "open", IsOpen(o))
		if w.Events != nil {
			w.Events.Record(event.Event{
				Regarding: event.Reference{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind, Name: o.GetName(), UID: string(o.GetUID())},
				Type:      event.Warning, Reason: reason, Action: event.None, Note: text, Controller: event.CleanupController,
			})
		}
	}
	return errors.Join(errs...)
}

package webhookserver

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/admission"
)

// How often the heartbeat lease is written, how often while its time does not change, and how long the time may stay
// unchanged before reviews count as unanswered.
const (
	heartbeatEvery = 10 * time.Second
	heartbeatAgain = 2 * time.Second
	heartbeatLimit = 30 * time.Second
)

// Heartbeat writes the lease `kyverno-health`. The API server sends the update through our
// own webhook, which alone writes the time: the annotation shows whether reviews are being answered, and
// not merely that there is a leader.
type Heartbeat struct {
	Client    client.Client
	Namespace string
	Now       func() time.Time
	Log       *slog.Logger
	// Changed is called when reviews start or stop being answered; nil for none.
	Changed func()
	// Missed is called for each heartbeat without a new stamp: its review failed. nil for none.
	Missed func()

	stamp   string
	sent    time.Time // when the last heartbeat was sent; zero before the first one
	moved   time.Time // when the stamp last changed, or the first heartbeat was sent
	healthy atomic.Bool
}

// Healthy reports whether reviews are answered. It is false until two heartbeats came back with different stamps.
func (h *Heartbeat) Healthy() bool { return h.healthy.Load() }

// Once sends one heartbeat.
func (h *Heartbeat) Once(ctx context.Context) (time.Duration, error) {
	lease := &unstructured.Unstructured{}
	lease.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
	lease.SetNamespace(h.Namespace)
	lease.SetName(admission.HeartbeatLease)
	// The label makes the API server call the webhook. The patch changes nothing, but webhooks are called before that is known.
	patch := []byte(`{"metadata":{"labels":{"app.kubernetes.io/name":"kyverno"}}}`)
	err := h.Client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		lease.SetLabels(map[string]string{"app.kubernetes.io/name": "kyverno"})
		err = h.Client.Create(ctx, lease) // without a webhook; the next heartbeat is an update
	}
	if err != nil {
		return 0, fmt.Errorf("write the lease %s: %w", admission.HeartbeatLease, err)
	}
	return h.evaluate(lease.GetAnnotations()[admission.HeartbeatAnnotation]), nil
}

// evaluate compares the stamp of a heartbeat with the last one, and returns when to send the next heartbeat.
func (h *Heartbeat) evaluate(stamp string) time.Duration {
	now := h.Now()
	if h.sent.IsZero() || now.Sub(h.sent) > heartbeatLimit {
		// The first one of this term: the stamp may be an old one.
		h.stamp, h.sent, h.moved = stamp, now, now
		h.healthy.Store(false)
		return heartbeatAgain
	}
	h.sent = now
	if stamp == h.stamp && stamp != "" && h.Missed != nil {
		h.Missed()
	}
	switch {
	case stamp != h.stamp && stamp != "":
		h.stamp, h.moved = stamp, now
		if !h.healthy.Swap(true) {
			h.Log.Info("reviews are answered: heartbeats come back stamped")
			h.notify()
		}
		return heartbeatEvery
	case now.Sub(h.moved) > heartbeatLimit && h.healthy.Swap(false):
		h.Log.Warn("reviews are not answered: heartbeats come back without a new stamp", "lease", admission.HeartbeatLease, "since", h.moved.UTC())
		h.notify()
	}
	return heartbeatAgain
}

func (h *Heartbeat) notify() {
	if h.Changed != nil {
		h.Changed()
	}
}

package serving

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

	"ephor.invalid/ephor/internal/admission"
)

// The interval of heartbeats, the shorter interval while the time in the lease does not change, and how long the time
// may stay unchanged before reviews count as unanswered.
const (
	heartbeatEvery = 10 * time.Second
	heartbeatAgain = 2 * time.Second
	heartbeatLimit = 30 * time.Second
)

// Heartbeat writes the lease `kyverno-health`. The API server sends the update through our own webhook, and only the
// webhook sets the time in the annotation. So the annotation shows that reviews are answered, not merely that there is
// a leader.
type Heartbeat struct {
	Client    client.Client
	Namespace string
	Now       func() time.Time
	Log       *slog.Logger
	// Changed is called when reviews start or stop being answered; nil if not needed.
	Changed func()
	// Missed is called for each heartbeat whose stamp did not change because its review failed; nil if not needed.
	Missed func()

	stamp   string
	sent    time.Time // the time of the last heartbeat; zero before the first one
	moved   time.Time // the time at which the stamp last changed, or the first heartbeat was sent
	healthy atomic.Bool
}

// Healthy reports whether reviews are answered. It is false until two heartbeats returned different stamps.
func (h *Heartbeat) Healthy() bool { return h.healthy.Load() }

// Once sends one heartbeat.
func (h *Heartbeat) Once(ctx context.Context) (time.Duration, error) {
	lease := &unstructured.Unstructured{}
	lease.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
	lease.SetNamespace(h.Namespace)
	lease.SetName(admission.HeartbeatLease)
	// The label makes the API server call the webhook. The patch changes nothing, but the API server calls webhooks before it notices that.
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

// evaluate compares the stamp of a heartbeat with the last one, and returns the time until the next heartbeat.
func (h *Heartbeat) evaluate(stamp string) time.Duration {
	now := h.Now()
	if h.sent.IsZero() || now.Sub(h.sent) > heartbeatLimit {
		// This is the first heartbeat of this term, and its stamp may be old.
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
			h.Log.Info("reviews are answered: heartbeats return with a new stamp")
			h.notify()
		}
		return heartbeatEvery
	case now.Sub(h.moved) > heartbeatLimit && h.healthy.Swap(false):
		h.Log.Warn("reviews are not answered: heartbeats return without a new stamp", "lease", admission.HeartbeatLease, "since", h.moved.UTC())
		h.notify()
	}
	return heartbeatAgain
}

func (h *Heartbeat) notify() {
	if h.Changed != nil {
		h.Changed()
	}
}

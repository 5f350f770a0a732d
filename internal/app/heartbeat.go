package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/admission"
)

// heartbeatEvery is how often the heartbeat lease is written.
const heartbeatEvery = 10 * time.Second

// heartbeat writes the lease `kyverno-health` (control plane reference §3.8). The API server sends the update through our
// own webhook, which writes the time: whoever looks at the annotation sees whether reviews are being answered.
type heartbeat struct {
	client    client.Client
	namespace string
	now       func() time.Time
}

// once sends one heartbeat.
func (h *heartbeat) once(ctx context.Context) (time.Duration, error) {
	lease := &unstructured.Unstructured{}
	lease.SetGroupVersionKind(schema.GroupVersionKind{Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"})
	lease.SetNamespace(h.namespace)
	lease.SetName(admission.HeartbeatLease)
	stamp := map[string]string{admission.HeartbeatAnnotation: h.now().UTC().Format(time.RFC3339)}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": stamp}})
	if err != nil {
		return 0, err
	}
	err = h.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
	if apierrors.IsNotFound(err) {
		lease.SetLabels(map[string]string{"app.kubernetes.io/name": "kyverno"})
		lease.SetAnnotations(stamp)
		err = h.client.Create(ctx, lease)
	}
	if err != nil {
		return 0, fmt.Errorf("write the lease %s: %w", admission.HeartbeatLease, err)
	}
	return heartbeatEvery, nil
}

package app

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/ring"
)

// newRing makes this replica a member of the replicas that share a controller's work, once the ring runs. Rows for a single replica stay
// with the leader. The client's transport does not send requests for work whose time has expired (base.start).
func newRing(b *base, e env, controller string) (*ring.Ring, error) {
	leases, err := ring.NewLeases(b.cfg, e.namespace)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for Leases: %w", err)
	}
	r := ring.New(ring.Options{Leases: leases, Namespace: e.namespace, Controller: controller, Identity: e.podName, Log: b.log})
	b.observing.Metrics.Members(controller, func() int { return len(r.Members()) })
	return r, nil
}

// anyKey is the share of a row that shares the work inside its keys: it begins again whenever the share of this replica changes.
type anyKey struct{ *ring.Ring }

func (anyKey) Hold(ctx context.Context, _ string) (context.Context, func(), bool) {
	return ctx, func() {}, true
}

// standingBy returns the row that pauses this replica's share of the work while another program holds the controller's lease.
// Kyverno's controllers process the same objects, and the work must not be done twice.
func standingBy(b *base, e env, lease string, r *ring.Ring) (controller.Row, error) {
	own := rest.CopyConfig(b.cfg)
	own.QPS, own.Burst = -1, 0
	client, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return controller.Row{}, fmt.Errorf("connect to the API server for Leases: %w", err)
	}
	leases := toolscache.NewListWatchFromClient(client.RESTClient(), "leases", e.namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, lease))
	return controller.StandBy("standing-by", leases, lease, r.Pause, b.log), nil
}

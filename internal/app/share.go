package app

import (
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
// with the leader. The client's transport does not send requests for work whose time has expired (flags.connect).
func (p *process) newRing(controller string) (*ring.Ring, error) {
	leases, err := ring.NewLeases(p.base.cfg, p.env.namespace)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for Leases: %w", err)
	}
	r := ring.New(ring.Options{Leases: leases, Namespace: p.env.namespace, Controller: controller, Identity: p.env.podName, Log: p.log})
	p.observing.Metrics.Members(controller, func() int { return len(r.Members()) })
	return r, nil
}

// standingBy returns the row that pauses this replica's share of the work while another program holds the controller's lease.
// Kyverno's controllers process the same objects, and the work must not be done twice.
func (p *process) standingBy(lease string, r *ring.Ring) (controller.Row, error) {
	own := rest.CopyConfig(p.base.cfg)
	own.QPS, own.Burst = -1, 0
	client, err := coordinationv1.NewForConfig(own)
	if err != nil {
		return controller.Row{}, fmt.Errorf("connect to the API server for Leases: %w", err)
	}
	leases := toolscache.NewListWatchFromClient(client.RESTClient(), "leases", p.env.namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, lease))
	return controller.StandBy("standing-by", leases, lease, r.Pause, p.log), nil
}

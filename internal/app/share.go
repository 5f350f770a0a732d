package app

import (
	"fmt"

	"github.com/ephor-dev/ephor/internal/ring"
)

// newRing makes this replica one of those that share a controller's work, once the ring runs. What must be single is left to the
// replica that leads. The client's transport does not send what belongs to work whose time is over (base.start).
func newRing(b *base, e env, controller string) (*ring.Ring, error) {
	leases, err := ring.NewLeases(b.cfg, e.namespace)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for Leases: %w", err)
	}
	r := ring.New(ring.Options{Leases: leases, Namespace: e.namespace, Controller: controller, Identity: e.podName, Log: b.log})
	b.observing.Metrics.Members(controller, func() int { return len(r.Members()) })
	return r, nil
}

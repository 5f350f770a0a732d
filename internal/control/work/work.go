package work

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/enqueue"
)

// NewWriter returns the writer of UpdateRequests. It has its own client, because requests wait for its writes, and these must not wait
// behind others. mapper is that of the process. updateRequestThreshold limits the number of UpdateRequests.
func NewWriter(cfg *rest.Config, mapper meta.RESTMapper, s *settings.Store, events event.Recorder, t *telemetry.Telemetry, wake func()) (*enqueue.Writer, error) {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = -1, 0
	c, err := newClient(own, mapper)
	if err != nil {
		return nil, err
	}
	return enqueue.New(enqueue.Options{
		API: updaterequest.NewAPI(c), Namespace: t.Process.Namespace, Threshold: func() int { return s.Load().UpdateRequestThreshold },
		Wake: wake, Events: events, Observer: t.Metrics, Log: t.Log, Now: time.Now,
	}), nil
}

func newClient(cfg *rest.Config, mapper meta.RESTMapper) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := kyvernov2.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := discovery.NewClient(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for UpdateRequests: %w", err)
	}
	return c, nil
}

// pendingPatience limits the time for the last writes of a process, because the kubelet waits for them.
const pendingPatience = 10 * time.Second

// LeavePending sets the state Pending on the UpdateRequests that this process leaves behind. Ephor's controllers do not need the state,
// but Kyverno's controllers execute only requests that have it.
func LeavePending(cfg *rest.Config, mapper meta.RESTMapper, namespace string, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), pendingPatience)
	defer cancel()
	c, err := newClient(cfg, mapper)
	n := 0
	if err == nil {
		n, err = updaterequest.LeavePending(ctx, c, namespace)
	}
	switch {
	case err != nil:
		log.Warn("UpdateRequests are left without a state, which Kyverno's controllers need", "written", n, "error", err)
	case n > 0:
		log.Info("UpdateRequests are left with the state Pending", "written", n)
	}
}

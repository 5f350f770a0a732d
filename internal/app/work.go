package app

import (
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/enqueue"
)

// newWork returns the writer of UpdateRequests. It has its own client, because requests wait for its writes, and these must not wait
// behind others. updateRequestThreshold limits the number of UpdateRequests.
func newWork(cfg *rest.Config, namespace string, s *settings.Store, events event.Recorder, o enqueue.Observer, wake func(), log *slog.Logger) (*enqueue.Writer, error) {
	own := rest.CopyConfig(cfg)
	own.QPS, own.Burst = -1, 0
	scheme := runtime.NewScheme()
	if err := kyvernov2.AddToScheme(scheme); err != nil {
		return nil, err
	}
	c, err := client.New(own, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for UpdateRequests: %w", err)
	}
	return enqueue.New(enqueue.Options{
		API: updaterequest.NewAPI(c), Namespace: namespace, Threshold: func() int { return s.Load().UpdateRequestThreshold },
		Wake: wake, Events: events, Observer: o, Log: log, Now: time.Now,
	}), nil
}

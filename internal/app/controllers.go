package app

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/ephor-dev/ephor/internal/intake"
	"github.com/ephor-dev/ephor/internal/lifecycle"
)

// controllerNames are Kyverno's names of our tasks, for metrics; others have none there. What is one round of ours may be
// the work of several of its controllers.
var controllerNames = map[string][]string{
	"webhooks":         {"webhook-controller", "exception-webhook-controller", "global-context-webhook-controller"},
	"certificates":     {"certmanager-controller"},
	"cleanup-webhooks": {"policy-webhook-controller", "ttl-webhook-controller"},
}

// Kyverno's names of what takes objects in as they come.
const (
	configName        = "config-controller"
	metricsConfigName = "metrics-config-controller"
	policiesName      = "policycache-controller"
	exceptionsName    = "exceptions-controller"
	globalsName       = "global-context"
)

// counted is the task with its rounds counted.
func (o *observing) counted(t lifecycle.Task) lifecycle.Task {
	names := controllerNames[t.Name]
	if names == nil {
		names = []string{t.Name}
	}
	for _, name := range names {
		o.metrics.Controller(name)
	}
	once, failures := t.Once, 0
	t.Once = func(ctx context.Context) (next time.Duration, err error) {
		done := false
		defer func() {
			failures++
			if done && err == nil {
				failures = 0
			}
			for _, name := range names {
				o.metrics.Reconciled(name)
				if failures > 0 {
					o.metrics.Requeued(name, failures)
				}
			}
		}()
		next, err = once(ctx)
		done = true // else it panicked, which the loop takes for an error
		return next, err
	}
	return t
}

// taken is the handler of an informer with what it takes in counted as rounds of the controller.
func (o *observing) taken(name string, next toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	o.metrics.Controller(name)
	return takes{next, func() { o.metrics.Reconciled(name) }}
}

// takenAll is taken for each of several informers.
func (o *observing) takenAll(name string, all []intake.Watch) []intake.Watch {
	for i := range all {
		all[i].Handler = o.taken(name, all[i].Handler)
	}
	return all
}

// takes reports each piece of news after it was taken in.
type takes struct {
	toolscache.ResourceEventHandler
	tell func()
}

func (t takes) OnAdd(obj any, first bool) {
	t.ResourceEventHandler.OnAdd(obj, first)
	t.tell()
}

func (t takes) OnUpdate(old, obj any) {
	t.ResourceEventHandler.OnUpdate(old, obj)
	t.tell()
}

func (t takes) OnDelete(obj any) {
	t.ResourceEventHandler.OnDelete(obj)
	t.tell()
}

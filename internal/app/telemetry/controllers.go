package telemetry

import (
	"context"
	"time"

	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/lifecycle"
)

// controllerNames maps Ephor's tasks to the names of Kyverno's controllers in metrics; other tasks have no name. One round of Ephor
// may do the work of several of Kyverno's controllers.
var controllerNames = map[string][]string{
	"webhooks":         {"webhook-controller", "exception-webhook-controller", "global-context-webhook-controller"},
	"certificates":     {"certmanager-controller"},
	"cleanup-webhooks": {"policy-webhook-controller", "ttl-webhook-controller"},
}

// Kyverno's names for controllers that handle events of objects.
const (
	configName        = "config-controller"
	metricsConfigName = "metrics-config-controller"
	PoliciesName      = "policycache-controller"
	ExceptionsName    = "exceptions-controller"
	GlobalsName       = "global-context"
)

// Counted returns a task that also counts its rounds.
func (o *Telemetry) Counted(t lifecycle.Task) lifecycle.Task {
	names := controllerNames[t.Name]
	if names == nil {
		names = []string{t.Name}
	}
	for _, name := range names {
		o.Metrics.Controller(name)
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
				o.Metrics.Reconciled(name)
				if failures > 0 {
					o.Metrics.Requeued(name, failures)
				}
			}
		}()
		next, err = once(ctx)
		done = true // if the task panicked, done stays false and the loop treats the round as an error
		return next, err
	}
	return t
}

// taken returns a handler for an informer that also counts its events as rounds of the controller.
func (o *Telemetry) taken(name string, next toolscache.ResourceEventHandler) toolscache.ResourceEventHandler {
	o.Metrics.Controller(name)
	return takes{next, func() { o.Metrics.Reconciled(name) }}
}

// TakenAll calls taken for several informers.
func (o *Telemetry) TakenAll(name string, all []intake.Watch) []intake.Watch {
	for i := range all {
		all[i].Handler = o.taken(name, all[i].Handler)
	}
	return all
}

// takes calls counted after each event of an informer.
type takes struct {
	toolscache.ResourceEventHandler
	counted func()
}

func (t takes) OnAdd(obj any, first bool) {
	t.ResourceEventHandler.OnAdd(obj, first)
	t.counted()
}

func (t takes) OnUpdate(old, obj any) {
	t.ResourceEventHandler.OnUpdate(old, obj)
	t.counted()
}

func (t takes) OnDelete(obj any) {
	t.ResourceEventHandler.OnDelete(obj)
	t.counted()
}

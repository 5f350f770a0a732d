package telemetry

import (
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/observe"
)

// controllerNames maps rows to the names of Kyverno's controllers in metrics; other rows have their own name. One round of Ephor
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

// Rows returns the observer of rows.
func (o *Telemetry) Rows() controller.Observer { return rows{o.Metrics} }

// rows counts rounds under Kyverno's names.
type rows struct{ metrics *observe.Metrics }

func named(row string) []string {
	if names := controllerNames[row]; names != nil {
		return names
	}
	return []string{row}
}

// Controller implements controller.Observer.
func (r rows) Controller(row string) {
	for _, name := range named(row) {
		r.metrics.Controller(name)
	}
}

// Reconciled implements controller.Observer.
func (r rows) Reconciled(row string) {
	for _, name := range named(row) {
		r.metrics.Reconciled(name)
	}
}

// Requeued implements controller.Observer.
func (r rows) Requeued(row string, failures int) {
	for _, name := range named(row) {
		r.metrics.Requeued(name, failures)
	}
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

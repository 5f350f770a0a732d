package reports

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/telemetry"
)

// Sending sends results as EphemeralReports to the reports controller while that controller merges them. A nil Sending sends nothing.
type Sending struct {
	*ephemeral.Writer
	view   ephemeral.View
	leases toolscache.ListerWatcherWithContext
}

// Lease is the name of the reports controller's lease.
const Lease = "kyverno-reports-controller"

// NewSending returns a Sending. mapper is that of the process, and max is the maximum number of EphemeralReports of this source.
func NewSending(cfg *rest.Config, mapper meta.RESTMapper, t *telemetry.Telemetry, source ephemeral.Source, max int, f *Flags) (*Sending, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(reportsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// The client is separate, so that reports never delay other requests.
	c, err := discovery.NewClient(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for reports: %w", err)
	}
	leases, err := coordinationclient.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	allowed, err := f.Allowed()
	if err != nil {
		return nil, err
	}
	s := &Sending{
		leases: toolscache.NewListWatchFromClient(leases.RESTClient(), "leases", t.Process.Namespace, fields.OneTermEqualSelector("metadata.name", Lease)),
	}
	s.Writer = ephemeral.New(ephemeral.Options{
		Store: ephemeral.NewStore(c, source, max, keystore.NewCached(c, c, t.Process.Namespace, keystore.Reports), doubtsOf(t)), View: &s.view, Rules: f.rules, Allowed: allowed,
		Observer: sendingObserver{t.Metrics, source}, Log: t.Log, Now: time.Now,
	})
	return s, nil
}

// doubtsOf counts and logs intermediate reports whose seal does not prove who wrote them.
func doubtsOf(t *telemetry.Telemetry) *ephemeral.Doubts {
	return &ephemeral.Doubts{Count: t.Metrics.ReportUnproved, Log: t.Log, Now: time.Now}
}

// Rows returns the row that writes results, and the one that keeps the state of the reports controller current, by watching its Lease. A nil Sending
// has none.
func (s *Sending) Rows() []controller.Row {
	if s == nil {
		return nil
	}
	there := false
	gone := func(*coordinationv1.Lease) { s.view.Gone() }
	saw := func(l *coordinationv1.Lease) error {
		there = true
		if l.Spec.RenewTime == nil {
			return nil
		}
		if text, takes := l.Annotations[ephemeral.ScannedAnnotation]; takes {
			s.view.Saw(time.Now(), l.Spec.RenewTime.Time, text)
		} else {
			s.view.Gone() // the controller exists, but does not merge results
		}
		return nil
	}
	listed := func(string) error {
		if !there {
			gone(nil)
		}
		return nil
	}
	follow := &controller.Reflector[*coordinationv1.Lease]{From: s.leases, Sink: controller.Sink[*coordinationv1.Lease]{
		Begin: func() { there = false }, Seen: saw, Gone: gone, Listed: listed,
	}}
	return []controller.Row{s.Row(), {Name: "reports-controller", Sources: []controller.Source{follow}}}
}

// End waits until ctx is done, and then writes what waits.
func (s *Sending) End(ctx context.Context) {
	if s != nil {
		s.Writer.End(ctx)
	}
}

// AfterReporting returns a function that calls tell with the results of a request, and then sends the results if the request was admitted.
func (s *Sending) AfterReporting(tell func(*policy.Request, []policy.Result, bool)) func(*policy.Request, []policy.Result, bool) {
	if s == nil {
		return tell
	}
	return func(req *policy.Request, results []policy.Result, refused bool) {
		tell(req, results, refused)
		if !refused {
			s.Put(req, results)
		}
	}
}

// sendingObserver counts sent and dropped reports as Kyverno's circuit breakers do.
type sendingObserver struct {
	metrics *observe.Metrics
	source  ephemeral.Source
}

func (o sendingObserver) Asked(dropped bool) {
	circuit := "admission reports"
	if o.source == ephemeral.Background {
		circuit = "background-scan reports" // the background controller spells it this way
	}
	o.metrics.Breaker(circuit, dropped)
}

func (o sendingObserver) Unsent(why string) { o.metrics.ReportUnsent(why) }

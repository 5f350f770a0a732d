package results

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "ephor.invalid/ephor/api/reports/v1"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/policy"
)

// Sending sends results as EphemeralReports to the reports controller while that controller merges them. A nil Sending sends nothing.
type Sending struct {
	*ephemeral.Writer
	view   ephemeral.View
	leases toolscache.ListerWatcherWithContext
}

// ReportsLease is the name of the reports controller's lease.
const ReportsLease = "kyverno-reports-controller"

// SendingOptions configure which results are sent, and with which client.
type SendingOptions struct {
	Config    *rest.Config
	Namespace string
	Source    ephemeral.Source
	Max       int // the maximum number of EphemeralReports
	Flags     *ReportingFlags
	Metrics   *observe.Metrics
	Log       *slog.Logger
}

// NewSending returns a Sending.
func NewSending(o SendingOptions) (*Sending, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(reportsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// The client is separate, so that reports never delay other requests.
	c, err := client.New(rest.CopyConfig(o.Config), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for reports: %w", err)
	}
	leases, err := coordinationclient.NewForConfig(o.Config)
	if err != nil {
		return nil, err
	}
	allowed, err := o.Flags.Allowed()
	if err != nil {
		return nil, err
	}
	s := &Sending{
		leases: toolscache.NewListWatchFromClient(leases.RESTClient(), "leases", o.Namespace, fields.OneTermEqualSelector("metadata.name", ReportsLease)),
	}
	s.Writer = ephemeral.New(ephemeral.Options{
		Store: ephemeral.NewStore(c, o.Source, o.Max, ReportKeys(c, o.Namespace), Doubts(o.Metrics, o.Log)), View: &s.view, Rules: o.Flags.rules, Allowed: allowed,
		Observer: sendingObserver{o.Metrics, o.Source}, Log: o.Log, Now: time.Now,
	})
	return s, nil
}

// ReportKeys returns the keys that seal intermediate reports. The client's scheme must contain Secrets.
func ReportKeys(c client.Client, namespace string) *keystore.Cached {
	store := &keystore.Store{Client: c, Reader: c, Namespace: namespace, Name: keystore.Reports}
	return &keystore.Cached{Load: store.Load, Now: time.Now}
}

// Doubts counts and logs intermediate reports whose seal does not prove who wrote them.
func Doubts(m *observe.Metrics, log *slog.Logger) *ephemeral.Doubts {
	return &ephemeral.Doubts{Count: m.ReportUnproved, Log: log, Now: time.Now}
}

// Follow keeps the state of the reports controller current until ctx is done, by watching its Lease.
func (s *Sending) Follow(ctx context.Context) {
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
	(&controller.Reflector[*coordinationv1.Lease]{From: s.leases, Sink: controller.Sink[*coordinationv1.Lease]{
		Begin: func() { there = false }, Seen: saw, Gone: gone, Listed: listed,
	}}).Run(ctx)
}

// Run writes until ctx is done.
func (s *Sending) Run(ctx context.Context) {
	if s != nil {
		s.Writer.Run(ctx)
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

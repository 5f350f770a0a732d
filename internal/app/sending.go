package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	reportsv1 "github.com/ephor-dev/ephor/api/reports/v1"
	"github.com/ephor-dev/ephor/internal/ephemeral"
	"github.com/ephor-dev/ephor/internal/keystore"
	"github.com/ephor-dev/ephor/internal/observe"
	"github.com/ephor-dev/ephor/internal/policy"
)

// sending is how results get to the reports controller: what is known of it, and who writes. The nil sending sends nothing.
type sending struct {
	*ephemeral.Writer
	view   ephemeral.View
	leases toolscache.ListerWatcher
}

// newSending makes a sending of results of a source, of which there may be max objects.
func newSending(b *base, namespace string, source ephemeral.Source, max int, f *reportingFlags) (*sending, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(reportsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// A client of its own: reports never make other requests wait.
	c, err := client.New(rest.CopyConfig(b.cfg), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server for reports: %w", err)
	}
	leases, err := coordinationclient.NewForConfig(b.cfg)
	if err != nil {
		return nil, err
	}
	allowed, err := f.allowed()
	if err != nil {
		return nil, err
	}
	s := &sending{
		leases: toolscache.NewListWatchFromClient(leases.RESTClient(), "leases", namespace, fields.OneTermEqualSelector("metadata.name", reportsLease)),
	}
	s.Writer = ephemeral.New(ephemeral.Options{
		Store: ephemeral.NewStore(c, source, max, reportKeys(c, namespace), doubts(b)), View: &s.view, Rules: f.rules, Allowed: allowed,
		Observer: sendingObserver{b.observing.metrics, source}, Log: b.log, Now: time.Now,
	})
	return s, nil
}

// reportKeys are the keys that intermediate reports are sealed with; the client's scheme knows Secrets.
func reportKeys(c client.Client, namespace string) *keystore.Cached {
	store := &keystore.Store{Client: c, Reader: c, Namespace: namespace, Name: keystore.Reports}
	return &keystore.Cached{Load: store.Load, Now: time.Now}
}

// doubts reports intermediate reports that are not believed.
func doubts(b *base) *ephemeral.Doubts {
	return &ephemeral.Doubts{Count: b.observing.metrics.ReportUnproved, Log: b.log, Now: time.Now}
}

// follow keeps what is known of the reports controller current until ctx is done: it watches that one Lease.
func (s *sending) follow(ctx context.Context) {
	saw := func(obj any) {
		l, ok := obj.(*coordinationv1.Lease)
		if !ok || l.Spec.RenewTime == nil {
			return
		}
		if text, takes := l.Annotations[ephemeral.ScannedAnnotation]; takes {
			s.view.Saw(time.Now(), l.Spec.RenewTime.Time, text)
		} else {
			s.view.Gone() // it is there, and takes nothing
		}
	}
	_, informer := toolscache.NewInformerWithOptions(toolscache.InformerOptions{
		ListerWatcher: s.leases, ObjectType: &coordinationv1.Lease{},
		Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: saw, UpdateFunc: func(_, obj any) { saw(obj) }, DeleteFunc: func(any) { s.view.Gone() },
		},
	})
	informer.RunWithContext(ctx)
}

// run writes until ctx is done.
func (s *sending) run(ctx context.Context) {
	if s != nil {
		s.Writer.Run(ctx)
	}
}

// afterReporting reports results, and sends those of requests that were let through.
func (s *sending) afterReporting(tell func(*policy.Request, []policy.Result, bool)) func(*policy.Request, []policy.Result, bool) {
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

// sendingObserver counts as Kyverno's circuit breakers do.
type sendingObserver struct {
	metrics *observe.Metrics
	source  ephemeral.Source
}

func (o sendingObserver) Asked(dropped bool) {
	circuit := "admission reports"
	if o.source == ephemeral.Background {
		circuit = "background-scan reports" // so spelt in the background controller
	}
	o.metrics.Breaker(circuit, dropped)
}

func (o sendingObserver) Unsent(why string) { o.metrics.ReportUnsent(why) }

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	openreports "ephor.invalid/ephor/api/openreports/v1alpha1"
	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
	"ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/scan"
)

// reporting is the state of the reports controller, which evaluates existing objects and writes reports about them.
type reporting struct {
	*evaluator
	flags   *reportsFlags
	scanner *scan.Scanner
	writer  *reports.Writer
	// consumer merges the results of other controllers into the reports; nil for none.
	consumer *reports.Consumer
	// decisions reads recorded admission decisions; nil for none.
	decisions decision.Reader
	rules     knownRules
	leases    coordinationclient.LeasesGetter
	ring      *ring.Ring
	omitted   *controller.Signal
	// served are the rows of the dashboard and of the store of decisions.
	served     []controller.Row
	exceeded   *status.Exceeded
	unexempted *status.ExceptionErrors
	// exempt counts the objects of exceptions; nil for none.
	exempt *status.ExceptionObjects
}

// runReports runs the reports controller. It returns when ctx is done and the controller has shut down in order.
func runReports(ctx context.Context, f *reportsFlags, e env, b *base) error {
	v, err := newEvaluator(&f.evaluatorFlags, e, b, cached{schemes: []func(*runtime.Scheme) error{policyreport.AddToScheme, openreports.AddToScheme}},
		family.Options{Types: knownTypes, Existing: true})
	if err != nil {
		return err
	}
	c := &reporting{evaluator: v, flags: f, omitted: &controller.Signal{}}
	return v.run(ctx, results.ReportsLease, f.probeFlags, controller.Process{
		Build: c.build, Fill: c.watch, Rows: func(context.Context) ([]controller.Row, error) { return c.rows(), nil },
	})
}

// build creates the scanner, the writer of reports and the parts that they need.
func (c *reporting) build(ctx context.Context) error {
	if err := errors.Join(c.reportsDefined(), c.keepDecisions(), c.serveDashboard()); err != nil {
		return err
	}
	root, err := c.world(ctx)
	if err != nil {
		return err
	}
	writer, err := c.client()
	if err != nil {
		return err
	}
	cfg, connections := c.base.cfg, c.manager.GetHTTPClient()
	listed, err := metadata.NewForConfigAndClient(metadata.ConfigFor(cfg), connections)
	if err != nil {
		return err
	}
	objects, err := rest.UnversionedRESTClientForConfigAndClient(dynamic.ConfigFor(c.base.workConfig), c.connections)
	if err != nil {
		return err
	}
	if c.leases, err = coordinationclient.NewForConfigAndClient(cfg, connections); err != nil {
		return err
	}
	allowed, err := c.flags.reporting.Allowed()
	if err != nil {
		return err
	}
	var sink scan.Sink = eventsOnly{}
	var ready <-chan struct{}
	if c.flags.write {
		c.writer = reports.New(reports.Options{
			Client: writer, Metadata: listed, Form: c.form(), Allowed: allowed, Log: c.log, Now: time.Now,
			Again: func(gk schema.GroupKind, namespace, name, uid string) { c.scanner.Again(gk, namespace, name, uid) },
		})
		sink, ready = c.writer, c.writer.Ready()
	}
	if c.flags.write && c.flags.exceptions.on() {
		c.exempt, err = c.newExempt()
		if err != nil {
			return err
		}
	}
	if c.ring, err = newRing(c.base, c.env, reportsRing); err != nil {
		return err
	}
	if c.flags.takes() {
		if c.consumer, err = c.newConsumer(listed); err != nil {
			return err
		}
	}
	observing := c.base.observing
	c.exceeded = status.NewExceeded(c.policies, c.manager.GetClient(), c.log)
	c.unexempted = status.NewExceptionErrors(c.manager.GetClient(), c.events, event.ScanController, observing.Metrics, c.log)
	o := scan.Options{
		Catalog: c.catalog, Resources: c.discovery, Objects: objects, Metadata: listed, Sink: sink, Ready: ready, Share: c.ring,
		Root: root, Eval: c.unexempted.Eval(observing.Tracer.Eval(engine.Eval)), Conf: c.conf, Labels: c.cluster.NamespaceLabels,
		Evaluated: c.exceeded.Evaluated(observing.Metrics.Evaluated), Observer: observing.Metrics, Reported: c.recordEvents, Unlistable: c.unlistable, Omitted: c.omitted.Fire,
		Workers: c.flags.workers, Interval: c.flags.interval, Log: c.log, Now: time.Now,
	}
	if !c.flags.skipFilters {
		o.Skip = func(gvk schema.GroupVersionKind, namespace, name string) bool {
			return c.settings.Load().Filtered(gvk, "", namespace, name)
		}
	}
	c.scanner = scan.New(o)
	observing.Metrics.Unlistable(c.scanner.Unlistable)
	for _, name := range []string{scan.Name, scan.KindsName, reports.ConsumerName} {
		observing.Metrics.Controller(name)
	}
	if !c.flags.scans() {
		c.log.Info("nothing is scanned", "reason", "--backgroundScan, --enableReporting")
	}
	return nil
}

// newExempt returns what counts the objects of exceptions.
func (c *reporting) newExempt() (*status.ExceptionObjects, error) {
	listed, err := dynamic.NewForConfigAndClient(c.base.cfg, c.manager.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	form := c.form()
	return &status.ExceptionObjects{
		Client: c.manager.GetClient(), Reader: c.manager.GetAPIReader(), Reports: listed, Kinds: []schema.GroupVersionResource{form.Namespaced, form.Cluster},
		Snapshot: c.catalog.Snapshot, Now: time.Now,
	}, nil
}

// form returns the API in which reports are written.
func (c *reporting) form() reports.Form {
	if c.flags.open {
		return reports.OpenReports
	}
	return reports.PolicyReports
}

// reportsDefined returns an error if reports cannot be written.
func (c *reporting) reportsDefined() error {
	if !c.flags.write {
		return nil
	}
	form := c.form()
	list, err := c.resources.ServerResourcesForGroupVersion(form.Cluster.GroupVersion().String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for the kinds of reports: %w", err)
	}
	for _, kind := range []schema.GroupVersionResource{form.Namespaced, form.Cluster} {
		if list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == kind.Resource }) {
			continue
		}
		err := fmt.Errorf("the kind %s of %s is not defined: reports cannot be written", kind.Resource, kind.GroupVersion())
		if c.flags.checkKinds {
			return err
		}
		c.log.Warn("reports will be written as soon as their kinds are defined", "error", err)
	}
	return nil
}

// eventsOnly replaces the writer of reports: it turns results into events and metrics only.
type eventsOnly struct{}

func (eventsOnly) Put(context.Context, policy.Outcome, report.Evaluated) (bool, error) {
	return true, nil
}
func (eventsOnly) Prune(context.Context, func(schema.GroupKind) bool, scan.Rules, func(schema.GroupKind, string) bool) error {
	return nil
}

// recordEvents records the events for a resource whose report changed.
func (c *reporting) recordEvents(out *policy.Outcome) {
	results.RecordResults(c.events, out.Request, out.Results, event.Context{Controller: event.ScanController})
}

// unlistable reports a kind that is not scanned to the authors of policies.
func (c *reporting) unlistable(programs []*policy.Program, kind schema.GroupVersionKind, err error) {
	for _, p := range programs {
		c.events.Record(event.Event{
			Regarding: event.PolicyReference(p), Type: event.Warning, Reason: event.PolicyError, Action: event.None,
			Controller: event.ScanController,
			Note:       fmt.Sprintf("%s %s cannot be scanned, and is missing in reports: %v", kind.GroupVersion(), kind.Kind, err),
		})
	}
}

// watch fills the caches.
func (c *reporting) watch(ctx context.Context) error {
	natives, err := c.natives()
	if err != nil {
		return err
	}
	return c.fill(ctx, toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(old, obj any) {
		before, ok := old.(*metav1.PartialObjectMetadata)
		after, also := obj.(*metav1.PartialObjectMetadata)
		switch {
		case !ok || !also:
		case before.Annotations[scan.RescanAnnotation] != after.Annotations[scan.RescanAnnotation]:
			c.scanner.Rescan(after.Name)
		case !maps.Equal(before.Labels, after.Labels):
			c.scanner.NamespaceChanged(after.Name)
		}
	}}, c.scanner.Replan, natives.Watches()...)
}

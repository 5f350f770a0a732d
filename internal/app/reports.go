package app

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	openreports "ephor.invalid/ephor/api/openreports/v1alpha1"
	policyreport "ephor.invalid/ephor/api/policyreport/v1alpha2"
	"ephor.invalid/ephor/internal/control/events"
	"ephor.invalid/ephor/internal/control/reports"
	"ephor.invalid/ephor/internal/control/scan"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/dashboard"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/lookups"
	"ephor.invalid/ephor/internal/policy"
	reportswriter "ephor.invalid/ephor/internal/reports"
	"ephor.invalid/ephor/internal/ring"
	scanner "ephor.invalid/ephor/internal/scan"
)

// reportsRing is the ring of the replicas that share the namespaces for which reports are written.
const reportsRing = "reports-controller"

// reporting is the state of the reports controller, which evaluates existing objects and writes reports about them.
type reporting struct {
	*process
	scanner *scanner.Scanner
	writer  *reportswriter.Writer
	merging *reports.Merging
	// consumer merges the results of other controllers into the reports; nil for none.
	consumer *reportswriter.Consumer
	ring     *ring.Ring
	omitted  *controller.Signal
	// served are the rows of the dashboard and of the store of decisions.
	served   []controller.Row
	exceeded *status.Exceeded
	// exempt counts the objects of exceptions; nil for none.
	exempt *status.ExceptionObjects
}

// runReports runs the reports controller. It returns when ctx is done and the controller has shut down in order.
func runReports(ctx context.Context, f *flags, e env, b *base) error {
	p, err := newProcess(f, e, b, parts{
		schemes: []func(*runtime.Scheme) error{policyreport.AddToScheme, openreports.AddToScheme}, objects: definitions(), reporter: event.ScanController,
		policies: intake.PolicyOptions{Kinds: intake.Requests(), Compile: family.Options{Types: knownTypes, Existing: true}},
	})
	if err != nil {
		return err
	}
	c := &reporting{process: p, omitted: &controller.Signal{}}
	return p.run(ctx, reports.Lease, controller.Process{
		Build: c.build, Fill: c.watch, Rows: func(context.Context) ([]controller.Row, error) { return c.rows(), nil },
	})
}

// build creates the scanner, the writer of reports and the parts that they need.
func (c *reporting) build(ctx context.Context) error {
	f := &c.flags.reports
	if err := c.reportsDefined(); err != nil {
		return err
	}
	if err := c.serve(); err != nil {
		return err
	}
	root, err := c.world(lookups.Options{Registry: &c.flags.registry})
	if err != nil {
		return err
	}
	writer, connections, err := c.workClient()
	if err != nil {
		return err
	}
	listed, err := metadata.NewForConfigAndClient(metadata.ConfigFor(c.base.cfg), controller.PagedClient(c.manager.GetHTTPClient()))
	if err != nil {
		return err
	}
	objects, err := rest.UnversionedRESTClientForConfigAndClient(dynamic.ConfigFor(c.base.workConfig), connections)
	if err != nil {
		return err
	}
	allowed, err := c.flags.reporting.Allowed()
	if err != nil {
		return err
	}
	var sink scanner.Sink = scan.EventsOnly{}
	var ready <-chan struct{}
	if f.write {
		c.writer = reportswriter.New(reportswriter.Options{
			Client: writer, Metadata: listed, Form: c.form(), Allowed: allowed, Log: c.log, Now: time.Now,
			Again: func(gk schema.GroupKind, uid string) { c.scanner.Again(gk, uid) },
		})
		sink, ready = c.writer, c.writer.Ready()
	}
	if f.write && c.flags.exceptions.On() {
		if c.exempt, err = c.newExempt(); err != nil {
			return err
		}
	}
	if c.ring, err = c.newRing(reportsRing); err != nil {
		return err
	}
	c.merging = &reports.Merging{Catalog: c.catalog, Scanned: c.scanned, On: f.write, Manager: c.manager, Telemetry: c.observing}
	if c.flags.merges() {
		if c.consumer, err = c.merging.NewConsumer(c.writer, listed, c.ring, f.takers); err != nil {
			return err
		}
	}
	c.exceeded = status.NewExceeded(c.policies, c.manager.GetClient(), c.log)
	o := scanner.Options{
		Catalog: c.catalog, Resources: c.discovery, Objects: objects, Metadata: listed, Sink: sink, Ready: ready, Share: c.ring,
		Root: root, Eval: c.eval(), Conf: c.conf, Labels: c.cluster.NamespaceLabels,
		Evaluated: c.exceeded.Evaluated(c.observing.Metrics.Evaluated), Observer: c.observing.Metrics, Reported: c.recordEvents,
		Unlistable: scan.Unlistable(c.events), Omitted: c.omitted.Fire, Workers: f.workers, Interval: f.interval, Log: c.log, Now: time.Now,
	}
	if !f.skipFilters {
		o.Skip = func(gvk schema.GroupVersionKind, namespace, name string) bool {
			return c.settings.Load().Filtered(gvk, "", namespace, name)
		}
	}
	c.scanner = scanner.New(o)
	c.observing.Metrics.Unlistable(c.scanner.Unlistable)
	for _, name := range []string{scanner.Name, scanner.KindsName, reportswriter.ConsumerName} {
		c.observing.Metrics.Controller(name)
	}
	if !c.flags.scans() {
		c.log.Info("nothing is scanned", "reason", "--backgroundScan, --enableReporting")
	}
	return nil
}

// scanned returns the kinds that scans evaluate.
func (c *reporting) scanned() []schema.GroupKind {
	if !c.flags.scans() {
		return nil
	}
	return c.scanner.Scanned()
}

// newExempt returns what counts the objects of exceptions.
func (c *reporting) newExempt() (*status.ExceptionObjects, error) {
	listed, err := dynamic.NewForConfigAndClient(c.base.cfg, controller.PagedClient(c.manager.GetHTTPClient()))
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
func (c *reporting) form() reportswriter.Form {
	if c.flags.reports.open {
		return reportswriter.OpenReports
	}
	return reportswriter.PolicyReports
}

// serve adds the rows of the store of decisions and of the dashboard.
func (c *reporting) serve() error {
	f := &c.flags.reports
	kept, store, err := f.decisions.OpenStore(c.recorder(event.ScanController))
	if err != nil {
		return err
	}
	o := dashboard.Options{
		Form: c.form(), Decisions: kept, Cluster: f.decisions.Cluster(), Discovery: c.discovery, Settings: c.settings.Load, Types: knownTypes,
		Server: c.base.servers.Version, AcceptsExceptions: c.flags.exceptions.Accepts, Log: c.log, Now: time.Now,
	}
	if c.flags.exceptions.On() && c.flags.exceptions.Approval {
		o.Pending = c.exceptions.Pending
	}
	pages, err := f.dashboard.Rows(c.base.cfg, c.manager.GetRESTMapper(), c.observing, o)
	c.served = append(store, pages...)
	return err
}

// reportsDefined returns an error if reports cannot be written.
func (c *reporting) reportsDefined() error {
	if !c.flags.reports.write {
		return nil
	}
	missing, err := reports.Missing(c.resources, c.form())
	if err != nil || missing == nil {
		return err
	}
	if c.flags.reports.checkKinds {
		return missing
	}
	c.log.Warn("reports will be written as soon as their kinds are defined", "error", missing)
	return nil
}

// recordEvents records the events for a resource whose report changed.
func (c *reporting) recordEvents(out *policy.Outcome) {
	events.Record(c.events, out.Request, out.Results, event.Context{Controller: event.ScanController})
}

// watch fills the caches, also with the policies of the API server that have the label for reports.
func (c *reporting) watch(ctx context.Context) error {
	kinds, err := c.flags.reports.natives.Kinds(c.resources)
	if err != nil {
		return fmt.Errorf("policies of the API server: %w", err)
	}
	natives := intake.NewPolicies(intake.PolicyOptions{
		Kinds: kinds, Catalog: c.catalog, Accept: scan.Reported, Compile: family.Options{Types: knownTypes, Existing: true}, Server: c.base.servers.Version, Log: c.log,
	})
	c.base.servers.Changed(func(kubeversion.Minor) { natives.Recompile() })
	static, err := c.flags.reports.natives.FromFiles()
	if err != nil {
		return err
	}
	for _, u := range static {
		natives.Add(u)
	}
	return c.fill(ctx, scan.Namespaces(c.scanner), c.scanner.Replan, c.policies.Watches(), natives.Watches()...)
}

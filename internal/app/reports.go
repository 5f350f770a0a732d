package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	policyreport "github.com/ephor-dev/ephor/api/policyreport/v1alpha2"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/reports"
	"github.com/ephor-dev/ephor/internal/scan"
	"github.com/ephor-dev/ephor/internal/settings"
	"github.com/ephor-dev/ephor/internal/webhookconf"
	"github.com/ephor-dev/ephor/internal/world/live"
)

// reportsLease is the name of the reports controller's lease.
const reportsLease = "kyverno-reports-controller"

// reporting is the state of the reports controller, which judges what exists and writes reports about it.
type reporting struct {
	flags     *reportsFlags
	env       env
	log       *slog.Logger
	manager   manager.Manager
	catalog   *catalog.Catalog
	settings  *settings.Store
	policies  *policies
	globals   *globals
	discovery *webhookconf.Discovery
	cluster   *cluster
	events    *event.Queue
	observing *observing
	scanner   *scan.Scanner
	writer    *reports.Writer
	optional  optional
	filled    atomic.Bool
}

// runReports is the reports controller. It returns when ctx is done and everything was finished in order.
func runReports(ctx context.Context, f *reportsFlags, e env, b *base) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	c := &reporting{flags: f, env: e, log: b.log, catalog: catalog.New(), settings: &settings.Store{}, observing: b.observing}
	if c.manager, err = newReportsManager(b.cfg, f, e); err != nil {
		return err
	}
	c.optional = optional{cache: c.manager.GetCache(), log: b.log}
	if c.events, err = newEvents(b.cfg, f.events, c.settings, b.observing.metrics.EventDropped, b.log); err != nil {
		return err
	}
	c.policies = newPolicies(c.catalog, false, b.log)

	cacheCtx, stopCache := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCache()
	cacheDone := make(chan error, 1)
	go func() { cacheDone <- c.manager.Start(cacheCtx) }()
	if err := c.build(cacheCtx, b); err != nil {
		return err
	}

	run, stop := context.WithCancel(ctx)
	defer stop()
	failures := make(chan error, 2)
	var running sync.WaitGroup
	running.Go(func() {
		failures <- c.probes(run, listener)
		stop()
	})
	last, end := context.WithCancel(context.WithoutCancel(run))
	running.Go(func() {
		defer end()
		if err := c.watch(run); err != nil {
			if run.Err() == nil {
				failures <- err
			}
			stop()
			return
		}
		c.log.Info("caches are filled", "policies", len(c.catalog.Snapshot().Programs()))
		running.Go(func() { b.observing.counted(c.optional.task()).run(run, c.log) })
		if err := lead(run, b.cfg, reportsLease, e.namespace, e.podName, f.leaderRetryPeriod, c.leaderTasks(), c.log); err != nil {
			failures <- err
			stop()
		}
	})
	running.Go(func() { c.events.Run(last) })
	select {
	case err = <-cacheDone:
		stop()
	case <-run.Done():
	}
	running.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

// build makes what judges and what writes.
func (c *reporting) build(ctx context.Context, b *base) error {
	f, m := c.flags, c.manager
	resources, err := discovery.NewDiscoveryClientForConfigAndClient(b.cfg, m.GetHTTPClient())
	if err != nil {
		return err
	}
	c.discovery = webhookconf.NewDiscovery(resources, time.Now)
	c.cluster = &cluster{cached: m.GetCache(), live: m.GetAPIReader(), discovery: c.discovery}
	if err := c.kindsDefined(resources); err != nil {
		return err
	}
	api, err := f.calls.kubernetes(b.policyConfig)
	if err != nil {
		return err
	}
	services, err := f.calls.services()
	if err != nil {
		return err
	}
	images, err := f.registry.images(c.env.namespace, m.GetAPIReader(), services)
	if err != nil {
		return err
	}
	if c.globals, err = newGlobals(ctx, b.cfg, f.globals, api, services, c.events, c.log); err != nil {
		return err
	}
	writer, err := client.New(b.cfg, client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), HTTPClient: m.GetHTTPClient()})
	if err != nil {
		return err
	}
	listed, err := metadata.NewForConfigAndClient(metadata.ConfigFor(b.cfg), m.GetHTTPClient())
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfigAndClient(dynamic.ConfigFor(b.cfg), m.GetHTTPClient())
	if err != nil {
		return err
	}
	allowed, err := f.allowed()
	if err != nil {
		return err
	}
	var sink scan.Sink = told{}
	if f.write {
		c.writer = reports.New(reports.Options{
			Client: writer, Metadata: listed, Allowed: allowed, Log: c.log, Now: time.Now,
			Again: func(gk schema.GroupKind, namespace, name, uid string) { c.scanner.Again(gk, namespace, name, uid) },
		})
		sink = c.writer
	}
	o := scan.Options{
		Catalog: c.catalog, Find: c.find, Dynamic: objects, Metadata: listed, Sink: sink,
		Root: b.observing.tracer.World(&live.Root{
			Reader: m.GetAPIReader(), Labels: c.cluster.NamespaceLabels, API: api, Services: services,
			Globals: c.globals.store, Images: images, Kinds: c.cluster,
		}),
		Eval: b.observing.tracer.Eval(engine.Eval), Conf: c.conf, Labels: c.cluster.NamespaceLabels,
		Judged: b.observing.metrics.Judged, Told: c.tell, Unlistable: c.unlistable,
		Workers: f.workers, Interval: f.interval, Log: c.log, Now: time.Now,
	}
	if !f.skipFilters {
		o.Skip = func(gvk schema.GroupVersionKind, namespace, name string) bool {
			return c.settings.Load().Filtered(gvk, "", namespace, name)
		}
	}
	c.scanner = scan.New(o)
	return nil
}

// kindsDefined makes sure that reports can be written.
func (c *reporting) kindsDefined(d discovery.ServerResourcesInterface) error {
	if !c.flags.write {
		return nil
	}
	list, err := d.ServerResourcesForGroupVersion(policyreport.GroupVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for the kinds of reports: %w", err)
	}
	for _, plural := range []string{"policyreports", "clusterpolicyreports"} {
		if list != nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
			continue
		}
		err := fmt.Errorf("the kind %s of %s is not defined: reports cannot be written", plural, policyreport.GroupVersion)
		if c.flags.checkKinds {
			return err
		}
		c.log.Warn("reports will be written as soon as their kinds are defined", "error", err)
	}
	return nil
}

// told is where results go that are not stored: events and metrics are told of them.
type told struct{}

func (told) Put(context.Context, policy.Outcome) (bool, error)        { return true, nil }
func (told) Prune(context.Context, func(schema.GroupKind) bool) error { return nil }

// conf are the settings that rules see.
func (c *reporting) conf() policy.Conf {
	return policy.ConfOf(c.settings.Load())
}

// find are the resources that a kind selector means.
func (c *reporting) find(t policy.Target) ([]scan.Resource, error) {
	found, err := c.discovery.Find(t.Group, t.Version, t.Kind, "")
	var out []scan.Resource
	for _, r := range found {
		if r.Subresource == "" && (t.Resource == "" || t.Resource == r.Resource) {
			out = append(out, scan.Resource{
				GroupVersionResource: schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}, Kind: r.Kind,
			})
		}
	}
	return out, err
}

// tell records the events of a resource whose report changed.
func (c *reporting) tell(out *policy.Outcome) {
	if !worthTelling(c.events, out.Results) {
		return
	}
	for _, e := range event.From(out.Request, out.Results, event.Context{
		Controller: event.ScanController,
		ExceptionUID: func(key string) string {
			if x := c.catalog.Snapshot().Exception(key); x != nil {
				return x.UID
			}
			return ""
		},
	}) {
		c.events.Record(e)
	}
}

// unlistable tells the authors of policies about a kind that is not scanned.
func (c *reporting) unlistable(programs []*policy.Program, kind schema.GroupVersionKind, err error) {
	for _, p := range programs {
		c.events.Record(event.Event{
			Regarding: event.PolicyReference(p), Type: event.Warning, Reason: event.PolicyError, Action: event.None,
			Controller: event.ScanController,
			Note:       fmt.Sprintf("%s %s cannot be scanned, and is missing in reports: %v", kind.GroupVersion(), kind.Kind, err),
		})
	}
}

func newReportsManager(cfg *rest.Config, f *reportsFlags, e env) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyreport.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	shared := true // namespaces are only read
	noDrain := time.Duration(0)
	m, err := manager.New(cfg, manager.Options{
		Scheme:                  scheme,
		LeaderElection:          false,
		Metrics:                 server.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &noDrain,
		Cache: cache.Options{
			SyncPeriod:       &f.resyncPeriod,
			DefaultTransform: f.exceptions.transform,
			ByObject: map[client.Object]cache.ByObject{ // only kinds that are always there
				&corev1.ConfigMap{}: {
					Namespaces: map[string]cache.Config{e.namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", e.configMap),
				},
				namespaceObject(): {Transform: onlyLabels, UnsafeDisableDeepCopy: &shared},
				crdObject():       {Transform: onlyIdentity},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return m, nil
}

// watch fills the caches.
func (c *reporting) watch(ctx context.Context) error {
	config := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.configure,
		UpdateFunc: func(_, obj any) { c.configure(obj) },
		DeleteFunc: func(any) { c.settings.Set(nil) },
	}
	namespaces := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(old, obj any) {
		before, ok := old.(*metav1.PartialObjectMetadata)
		after, also := obj.(*metav1.PartialObjectMetadata)
		if ok && also && fmt.Sprint(before.Labels) != fmt.Sprint(after.Labels) {
			c.scanner.NamespaceChanged(after.Name)
		}
	}}
	all := []watched{
		{&corev1.ConfigMap{}, config}, {namespaceObject(), namespaces},
		{policyObject(clusterPolicyGVK), c.policies.handler()}, {policyObject(policyGVK), c.policies.handler()},
	}
	if err := c.optional.watch(ctx, besides(c.globals, c.flags.exceptions, c.catalog, c.log)); err != nil {
		return err
	}
	if err := watchAll(ctx, c.manager.GetCache(), all); err != nil {
		return err
	}
	if err := watchDefinitions(ctx, c.manager.GetCache(), func() { c.discovery.Invalidate(); c.scanner.Replan() }); err != nil {
		return err
	}
	c.globals.settle(ctx)
	c.filled.Store(true)
	return nil
}

func (c *reporting) configure(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != c.env.configMap {
		return
	}
	s, _ := settings.Parse(cm.Data) // the admission controller tells of mistakes
	c.settings.Set(s)
}

// leaderTasks are the controllers that only one replica runs.
func (c *reporting) leaderTasks() []task {
	if !c.flags.scan || !slices.Contains(c.flags.rules, "validate") {
		c.log.Info("nothing is scanned", "reason", "--backgroundScan, --enableReporting")
		return nil
	}
	return []task{c.observing.counted(task{name: "background-scan-controller", wake: newTrigger(), once: c.scan})}
}

// scan keeps the reports current until ctx is done.
func (c *reporting) scan(ctx context.Context) (time.Duration, error) {
	if c.writer == nil {
		return 0, c.scanner.Run(ctx)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ready := make(chan struct{})
	running.Go(func() { c.writer.Run(ctx, func() { close(ready) }) })
	select {
	case <-ctx.Done():
		return 0, nil
	case <-ready:
		return 0, c.scanner.Run(ctx)
	}
}

// probes answers the kubelet until ctx is done.
func (c *reporting) probes(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health/liveness", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) {
		if !c.filled.Load() {
			http.Error(w, "the policies have not been read yet", http.StatusServiceUnavailable)
		}
	})
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 30 * time.Second, ErrorLog: slog.NewLogLogger(c.log.Handler(), slog.LevelDebug)}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the probes: %w", err)
	}
	return nil
}

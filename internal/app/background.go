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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/observe"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/settings"
	"github.com/ephor-dev/ephor/internal/updaterequest"
	"github.com/ephor-dev/ephor/internal/webhookconf"
	"github.com/ephor-dev/ephor/internal/world/live"
)

// backgroundLease is the name of the background controller's lease.
const backgroundLease = "kyverno-background-controller"

// background is the state of the background controller, which carries out what admission requests and policies ask for.
type background struct {
	flags     *backgroundFlags
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
	worker    *updaterequest.Worker
	follower  *updaterequest.Follower
	changed   trigger // the policies
	optional  optional
	filled    atomic.Bool
}

// runBackground is the background controller. It returns when ctx is done and everything was finished in order.
func runBackground(ctx context.Context, f *backgroundFlags, e env, b *base) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	c := &background{
		flags: f, env: e, log: b.log, catalog: catalog.New(), settings: &settings.Store{}, observing: b.observing, changed: newTrigger(),
	}
	if c.manager, err = newBackgroundManager(b.cfg, f, e); err != nil {
		return err
	}
	c.optional = optional{cache: c.manager.GetCache(), log: b.log}
	if c.events, err = newEvents(b.cfg, f.events, c.settings, b.observing.metrics.EventDropped, b.log); err != nil {
		return err
	}
	c.policies = newPolicies(c.catalog, false, b.log)
	b.observing.metrics.Policies(func() []observe.PolicyState { return policyStates(c.catalog.Snapshot()) })

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
		failures <- c.serveHealth(run, listener)
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
		c.policies.observe(b.observing.metrics.PolicyChanged) // what was there before is no change
		c.log.Info("caches are filled", "policies", len(c.catalog.Snapshot().Programs()))
		running.Go(func() { c.follow(run) })
		running.Go(func() { b.observing.counted(c.optional.task()).run(run, c.log) })
		if err := lead(run, b.cfg, backgroundLease, e.namespace, e.podName, f.leaderRetryPeriod, c.leaderTasks(), c.log); err != nil {
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

// build makes what carries work out.
func (c *background) build(ctx context.Context, b *base) error {
	f, m := c.flags, c.manager
	resources, err := discovery.NewDiscoveryClientForConfigAndClient(b.cfg, m.GetHTTPClient())
	if err != nil {
		return err
	}
	c.discovery = webhookconf.NewDiscovery(resources, time.Now)
	c.cluster = &cluster{cached: m.GetCache(), live: m.GetAPIReader(), discovery: c.discovery}
	api, err := f.calls.kubernetes(b.policyConfig)
	if err != nil {
		return err
	}
	services, err := f.calls.services()
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
	c.worker = updaterequest.NewWorker(updaterequest.WorkerOptions{
		Client: writer, Namespace: c.env.namespace, Snapshot: c.catalog.Snapshot,
		Root: b.observing.tracer.World(&live.Root{
			Reader: m.GetAPIReader(), Labels: c.cluster.NamespaceLabels, API: api, Services: services,
			Globals: c.globals.store, Kinds: c.cluster,
		}),
		Conf: c.conf, Labels: c.cluster.NamespaceLabels, Eval: b.observing.tracer.Eval(engine.Eval),
		Events: c.events, Observer: b.observing.metrics, Workers: f.workers, Log: c.log, Now: time.Now,
	})
	c.follower = &updaterequest.Follower{Worker: c.worker, Find: c.kinds, Every: f.interval, Log: c.log}
	b.observing.metrics.Controller(updaterequest.WorkerName)
	return nil
}

// conf are the settings that rules see.
func (c *background) conf() policy.Conf {
	return policy.ConfOf(c.settings.Load())
}

// kinds are those that a kind selector means, each in one version.
func (c *background) kinds(t policy.Target) ([]schema.GroupVersionKind, error) {
	found, err := c.discovery.Find(t.Group, t.Version, t.Kind, "")
	if err != nil {
		return nil, err
	}
	var out []schema.GroupVersionKind
	for _, r := range found {
		gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
		if !slices.ContainsFunc(out, func(o schema.GroupVersionKind) bool { return o.GroupKind() == gvk.GroupKind() }) {
			out = append(out, gvk)
		}
	}
	return out, nil
}

func updateRequestObject() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kyvernov2.GroupVersion.WithKind("UpdateRequest"))
	return o
}

func newBackgroundManager(cfg *rest.Config, f *backgroundFlags, e env) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, kyvernov2.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	own := map[string]cache.Config{e.namespace: {}}
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
				&corev1.ConfigMap{}:   {Namespaces: own, Field: fields.OneTermEqualSelector("metadata.name", e.configMap)},
				namespaceObject():     {Transform: onlyLabels, UnsafeDisableDeepCopy: &shared},
				crdObject():           {Transform: onlyIdentity},
				updateRequestObject(): {Namespaces: own, Transform: onlyGeneration},
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return m, nil
}

// onlyGeneration reduces an UpdateRequest to what tells that it is new or was raised.
func onlyGeneration(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation}
	}
	return obj, nil
}

// watch fills the caches.
func (c *background) watch(ctx context.Context) error {
	config := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    c.configure,
		UpdateFunc: func(_, obj any) { c.configure(obj) },
		DeleteFunc: func(any) { c.settings.Set(nil) },
	}
	add := func(obj any) {
		if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
			c.worker.Add(o.Name)
		}
	}
	requests := toolscache.ResourceEventHandlerFuncs{
		AddFunc: add,
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*metav1.PartialObjectMetadata)
			after, also := obj.(*metav1.PartialObjectMetadata)
			if ok && also && (before.Generation != after.Generation || before.UID != after.UID) {
				add(obj)
			}
		},
	}
	all := []watched{
		{&corev1.ConfigMap{}, config}, {namespaceObject(), toolscache.ResourceEventHandlerFuncs{}},
		{policyObject(clusterPolicyGVK), c.policies.handler()}, {policyObject(policyGVK), c.policies.handler()},
		{updateRequestObject(), requests},
	}
	if err := c.optional.watch(ctx, besides(c.globals, c.flags.exceptions, c.catalog, c.log)); err != nil {
		return err
	}
	if err := watchAll(ctx, c.manager.GetCache(), all); err != nil {
		return err
	}
	if err := watchDefinitions(ctx, c.manager.GetCache(), c.discovery.Invalidate); err != nil {
		return err
	}
	c.globals.settle(ctx)
	c.follower.Observe(c.catalog.Snapshot())
	c.filled.Store(true)
	return nil
}

func (c *background) configure(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != c.env.configMap {
		return
	}
	s, _ := settings.Parse(cm.Data) // the admission controller tells of mistakes
	c.settings.Set(s)
}

// follow lets the follower see every change of the policies, whether or not this replica leads.
func (c *background) follow(ctx context.Context) {
	changed, cancel := c.catalog.Subscribe()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			c.observing.metrics.Forget()
			c.follower.Observe(c.catalog.Snapshot())
			c.changed.fire()
		}
	}
}

// leaderTasks are the controllers that only one replica runs.
func (c *background) leaderTasks() []task {
	return []task{
		{name: updaterequest.WorkerName, wake: newTrigger(), once: func(ctx context.Context) (time.Duration, error) {
			return 0, c.worker.Run(ctx) // it counts for itself
		}},
		c.observing.counted(task{name: "policy-controller", wake: c.changed, once: c.follower.Once}),
	}
}

// serveHealth answers the probes until ctx is done.
func (c *background) serveHealth(ctx context.Context, l net.Listener) error {
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

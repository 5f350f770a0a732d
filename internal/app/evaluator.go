package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/world"
)

// evaluatorFlags are the flags of controllers that evaluate policies.
type evaluatorFlags struct {
	commonFlags
	calls      callFlags
	registry   registryFlags
	exceptions exceptionFlags
	events     results.EventFlags
	globals    globalFlags
	reporting  results.ReportingFlags
}

func (f *evaluatorFlags) register(fs *pflag.FlagSet, maxResponse int64) {
	f.commonFlags.register(fs)
	f.calls.register(fs, maxResponse)
	f.registry.register(fs)
	f.exceptions.register(fs)
	f.events.Register(fs)
	f.globals.register(fs)
	f.reporting.Register(fs)
}

// complete checks the flags together.
func (f *evaluatorFlags) complete(fs *pflag.FlagSet, lookup func(string) (string, bool)) error {
	return errors.Join(f.commonFlags.complete(fs), f.calls.complete(fs, lookup), f.globals.complete(), f.registry.complete(), f.reporting.Complete())
}

// evaluator is the state of a controller that evaluates policies outside of reviews: the policies and the objects on which they
// depend. Every replica follows these objects, so that a new leader can start at once.
type evaluator struct {
	flags    *evaluatorFlags
	env      env
	log      *slog.Logger
	base     *base
	manager  manager.Manager
	catalog  *catalog.Catalog
	settings *settings.Store
	policies *intake.Policies
	// exceptions follows the exceptions.
	exceptions *intake.Exceptions
	globals    *globals.Globals
	resources  clientdiscovery.ServerResourcesInterface
	discovery  *discovery.Discovery
	cluster    *cluster
	events     *event.Queue
	// connections is the HTTP client for evaluations and for work.
	connections *http.Client
	intake      *intake.Kinds
	// kindsDefined is fired when a custom kind is added or removed.
	kindsDefined *controller.Signal
	filled       atomic.Bool
}

// newEvaluator returns the parts that do not need the cache, without starting them. Policies are compiled with the options o.
func newEvaluator(f *evaluatorFlags, e env, b *base, own cached, o family.Options) (*evaluator, error) {
	own.transform = f.exceptions.transform
	if own.objects == nil {
		own.objects = map[client.Object]cache.ByObject{}
	}
	own.objects[intake.DefinitionObject()] = cache.ByObject{Transform: serving.OnlyIdentity}
	m, err := newManager(b, &f.commonFlags, e, own)
	if err != nil {
		return nil, err
	}
	v := &evaluator{
		flags: f, env: e, log: b.log, base: b, manager: m, catalog: catalog.New(), settings: &settings.Store{},
		intake: &intake.Kinds{Cache: m.GetCache(), Live: m.GetAPIReader(), Log: b.log}, kindsDefined: &controller.Signal{},
	}
	v.exceptions = exceptionsFor(f.exceptions, v.catalog, v.settings, m, e.namespace)
	if v.events, err = results.NewEvents(b.cfg, f.events, v.settings, b.observing.Metrics, b.log); err != nil {
		return nil, err
	}
	v.policies = intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Requests(), Catalog: v.catalog, Compile: o, Server: b.servers.Version, Log: b.log})
	b.servers.Changed(func(kubeversion.Minor) { v.policies.Recompile() })
	if v.connections, err = rest.HTTPClientFor(b.workConfig); err != nil {
		return nil, err
	}
	resources, err := clientdiscovery.NewDiscoveryClientForConfigAndClient(b.cfg, m.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	v.resources = resources
	v.discovery = discovery.New(resources, time.Now)
	v.cluster = &cluster{cached: m.GetCache(), live: m.GetAPIReader(), Discovery: v.discovery}
	return v, nil
}

// world returns the World of policies. Global context is refreshed until ctx is done.
func (v *evaluator) world(ctx context.Context) (root world.Root, err error) {
	f := v.flags
	root, v.globals, err = lookups{
		namespace: v.env.namespace, calls: &f.calls, registry: &f.registry, globals: f.globals, cluster: v.cluster, events: v.events, log: v.log,
	}.open(ctx, v.base, v.manager)
	return root, err
}

// client returns the client for reports, and for the objects that policies evaluate.
func (v *evaluator) client() (client.Client, error) {
	m := v.manager
	return client.New(v.base.workConfig, client.Options{Scheme: m.GetScheme(), Mapper: m.GetRESTMapper(), HTTPClient: v.connections})
}

// conf returns the settings for rules.
func (v *evaluator) conf() policy.Conf { return policy.ConfOf(v.settings.Load()) }

// fill fills the caches with all existing objects. namespaces handles events of Namespaces; definitions is called when the served kinds
// change.
func (v *evaluator) fill(ctx context.Context, namespaces toolscache.ResourceEventHandler, definitions func(), more ...intake.Watch) error {
	config := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    v.configure,
		UpdateFunc: func(_, obj any) { v.configure(obj) },
		DeleteFunc: func(any) { v.settings.Set(nil); v.policies.AuditFirst(nil) },
	}
	all := append([]intake.Watch{
		{Object: &corev1.ConfigMap{}, Handler: config}, {Object: intake.NamespaceObject(), Handler: namespaces},
	}, more...)
	all = append(all, v.policies.Watches()...)
	all = append(all, lookedUp(v.globals, v.flags.exceptions, v.exceptions, v.base.observing, v.base.servers)...)
	if err := v.intake.Follow(ctx, all); err != nil {
		return err
	}
	if err := intake.WatchDefinitions(ctx, v.manager.GetCache(), func() {
		v.discovery.Invalidate()
		v.kindsDefined.Fire()
		definitions()
	}); err != nil {
		return err
	}
	v.globals.Settle(ctx)
	v.filled.Store(true)
	v.base.observing.ObserveChanges(v.policies)
	v.log.Info("caches are filled", "policies", len(v.catalog.Snapshot().Programs()))
	return nil
}

func (v *evaluator) configure(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != v.env.configMap {
		return
	}
	s, _ := settings.Parse(cm.Data) // the admission controller reports mistakes
	v.settings.Set(s)
	v.policies.AuditFirst(s.AuditFirst)
	v.base.observing.Configured()
}

// ready returns the reason why this replica may not lead yet.
func (v *evaluator) ready() error {
	if !v.filled.Load() {
		return errors.New("the policies have not been read yet")
	}
	return nil
}

// run runs a controller until ctx is done and the controller has shut down in order.
func (v *evaluator) run(ctx context.Context, lease string, f probeFlags, p controller.Process) error {
	probes, err := f.listen(v.ready, v.log)
	if err != nil {
		return err
	}
	defer probes.Close()
	p.Cache, p.Serve, p.Last = v.manager.Start, probes.Serve, append(p.Last, v.events.Run)
	p.Election, p.Observer, p.Log = v.base.election(v.flags.commonFlags, v.env, lease), v.base.observing.Rows(), v.log
	return p.Run(ctx)
}

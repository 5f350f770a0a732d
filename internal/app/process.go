package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/control/config"
	"ephor.invalid/ephor/internal/control/events"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/lifecycle"
	"ephor.invalid/ephor/internal/lookups"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/scan"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/world"
)

// process holds what every controller has: the policies, and the objects on which they depend. Every replica follows these objects, so that a
// new leader can start at once.
type process struct {
	flags      *flags
	env        env
	base       *base
	log        *slog.Logger
	observing  *telemetry.Telemetry
	manager    manager.Manager
	catalog    *catalog.Catalog
	settings   *settings.Store
	config     *config.Config
	policies   *intake.Policies
	exceptions *intake.Exceptions
	globals    *globals.Globals
	lookedUp   []controller.Row // keep the data of lookups current
	resources  *clientdiscovery.DiscoveryClient
	discovery  *discovery.Discovery
	cluster    *lookups.Cluster
	events     *event.Queue
	unexempted *status.ExceptionErrors
	// approvalKeys follows the keys of approvals of exceptions, if these are needed.
	approvalKeys []controller.Row
	intake       *intake.Kinds
	// kindsDefined is fired when a custom kind is added or removed.
	kindsDefined *controller.Signal
	filled       atomic.Bool // caches are filled and all policies compiled
}

// knownTypes returns the types of all built-in kinds. They are large, so they are created for the first mutating policy.
var knownTypes = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// parts are what a controller has in addition.
type parts struct {
	schemes  []func(*runtime.Scheme) error
	objects  map[client.Object]cache.ByObject // cached; only kinds that every cluster serves
	policies intake.PolicyOptions
	reporter string // in events
}

// newProcess returns the parts that do not need the cache, without starting them.
func newProcess(f *flags, e env, b *base, own parts) (*process, error) {
	m, err := newManager(f, e, b, own)
	if err != nil {
		return nil, err
	}
	p := &process{
		flags: f, env: e, base: b, log: b.log, observing: b.observing, manager: m, catalog: catalog.New(), settings: &settings.Store{},
		intake: &intake.Kinds{Cache: m.GetCache(), Live: m.GetAPIReader(), Log: b.log}, kindsDefined: &controller.Signal{},
	}
	if p.resources, err = discovery.NewResources(b.cfg, m.GetHTTPClient()); err != nil {
		return nil, err
	}
	p.discovery = discovery.New(p.resources, time.Now)
	p.cluster = lookups.NewCluster(m, p.discovery)
	if p.events, err = events.New(b.cfg, f.events, p.settings, b.observing); err != nil {
		return nil, err
	}
	own.policies.Catalog, own.policies.Server, own.policies.Log = p.catalog, b.servers.Version, b.log
	p.policies = intake.NewPolicies(own.policies)
	b.servers.Changed(func(kubeversion.Minor) { p.policies.Recompile() })
	approvals := p.seals(keystore.Exceptions)
	p.exceptions = f.exceptions.Follow(p.catalog, p.settings, approvals)
	if f.exceptions.On() && f.exceptions.Approval {
		p.approvalKeys = []controller.Row{status.KeysOfApprovals(approvals.Keys, p.exceptions.Recompile)}
	}
	p.unexempted = status.NewExceptionErrors(m.GetClient(), p.events, own.reporter, b.observing.Metrics, b.log)
	p.config = &config.Config{Name: e.configMap, Settings: p.settings, Policies: p.policies, Telemetry: b.observing}
	return p, nil
}

// newManager returns the manager of a controller. Its cache holds only the objects that the controller needs, and reduces them when they
// arrive.
func newManager(f *flags, e env, b *base, own parts) (manager.Manager, error) {
	known := runtime.NewScheme()
	for _, add := range append(own.schemes, corev1.AddToScheme, authorizationv1.AddToScheme) {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	shared := true // namespaces are only read
	noDrain := time.Duration(0)
	objects := map[client.Object]cache.ByObject{
		&corev1.ConfigMap{}: {
			Namespaces: map[string]cache.Config{e.namespace: {}}, Field: fields.OneTermEqualSelector("metadata.name", e.configMap),
		},
		intake.NamespaceObject(): {Transform: onlyLabels, UnsafeDisableDeepCopy: &shared},
	}
	maps.Copy(objects, own.objects)
	m, err := manager.New(b.cfg, manager.Options{
		Scheme:                  known,
		MapperProvider:          discovery.NewMapper,
		LeaderElection:          false,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: &noDrain,
		Cache:                   cache.Options{NewInformer: controller.NewInformer, SyncPeriod: &f.resyncPeriod, DefaultTransform: f.exceptions.Transform, ByObject: objects},
		Client:                  client.Options{Cache: &client.CacheOptions{Unstructured: false}},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	b.log.Debug("connected", "host", b.cfg.Host)
	return m, nil
}

// onlyLabels reduces a Namespace to the fields that selectors read, and to the annotation that requests a scan.
func onlyLabels(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		rescan, asked := o.Annotations[scan.RescanAnnotation]
		o.ObjectMeta = metav1.ObjectMeta{
			Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels, DeletionTimestamp: o.DeletionTimestamp,
		}
		if asked {
			o.Annotations = map[string]string{scan.RescanAnnotation: rescan}
		}
	}
	return obj, nil
}

// definitions returns the definitions of custom kinds for a cache.
func definitions() map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{intake.DefinitionObject(): {Transform: serving.OnlyIdentity}}
}

// keys returns the keys in a Secret of the installation.
func (p *process) keys(name string) *keystore.Cached {
	return keystore.NewCached(p.manager.GetClient(), p.manager.GetAPIReader(), p.env.namespace, name)
}

func (p *process) seals(name string) keystore.Seals { return keystore.Seals{Keys: p.keys(name)} }

// world returns the World of policies.
func (p *process) world(o lookups.Options) (root world.Root, err error) {
	o.Namespace, o.Calls, o.Globals, o.Config, o.Manager = p.env.namespace, &p.flags.calls, p.flags.globals, p.base.policyConfig, p.manager
	o.Cluster, o.Events, o.Telemetry = p.cluster, p.events, p.observing
	root, p.globals, p.lookedUp, err = o.Open()
	return root, err
}

// workClient returns a client for the objects that policies evaluate and change, and for reports, with its connections.
func (p *process) workClient() (client.Client, *http.Client, error) {
	connections, err := rest.HTTPClientFor(p.base.workConfig)
	if err != nil {
		return nil, nil, err
	}
	c, err := discovery.NewClient(p.base.workConfig, client.Options{Scheme: p.manager.GetScheme(), Mapper: p.manager.GetRESTMapper(), HTTPClient: connections})
	return c, connections, err
}

// eval returns the engine, whose evaluations are traced, and which reports exceptions that cannot be evaluated.
func (p *process) eval() func(context.Context, engine.Input) policy.Outcome {
	return p.unexempted.Eval(p.observing.Tracer.Eval(engine.Eval))
}

// conf returns the settings for rules.
func (p *process) conf() policy.Conf { return policy.ConfOf(p.settings.Load()) }

// fill fills the caches with all existing objects. namespaces handles events of Namespaces. defined is called when the served kinds change; nil
// if they are not followed.
func (p *process) fill(ctx context.Context, namespaces toolscache.ResourceEventHandler, defined func(), policies []intake.Watch, more ...intake.Watch) error {
	follow := append([]intake.Watch{p.config.Watch(), {Object: intake.NamespaceObject(), Handler: namespaces}}, more...)
	follow = append(follow, policies...)
	follow = append(follow, p.observing.TakenAll(telemetry.GlobalsName, p.globals.Watches())...)
	follow = append(follow, p.flags.exceptions.Watches(p.exceptions, p.observing, p.base.servers)...)
	if err := p.intake.Follow(ctx, follow); err != nil {
		return err
	}
	if defined != nil { // nothing waits for the definitions; without them, a missing kind is looked up twice a minute
		changed := func() {
			p.kindsDefined.Fire()
			defined()
		}
		p.discovery.OnChange(changed)
		if err := intake.WatchDefinitions(ctx, p.manager.GetCache(), func() {
			p.discovery.Invalidate()
			changed()
		}); err != nil {
			return err
		}
	}
	p.globals.Settle(ctx)
	p.filled.Store(true)
	p.observing.ObserveChanges(p.policies)
	p.log.Info("caches are filled", "policies", len(p.catalog.Snapshot().Programs()))
	return nil
}

// ready returns the reason why this replica may not lead, and cannot serve yet. It does not depend on other replicas.
func (p *process) ready() error {
	if !p.filled.Load() {
		return errors.New("the policies have not been read yet")
	}
	return nil
}

// run runs a controller until ctx is done and the controller has shut down in order.
func (p *process) run(ctx context.Context, lease string, c controller.Process) error {
	c.Cache, c.First, c.Last = p.manager.Start, p.first, append(c.Last, p.events.Run)
	c.Election, c.Observer, c.Log = p.base.election(p.flags, p.env, lease), p.observing.Rows(), p.log
	if c.Serve == nil {
		probes, err := lifecycle.ListenProbes(p.flags.probes.host, p.flags.probes.port, p.ready, p.log)
		if err != nil {
			return err
		}
		defer probes.Close()
		c.Serve = probes.Serve
	}
	return c.Run(ctx)
}

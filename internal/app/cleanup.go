package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/catalog"
	cleanupctl "ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/control/webhooks"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/failopen"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/ttl"
	"ephor.invalid/ephor/internal/webhookconf"
)

// cleanupLease is the name of the cleanup controller's lease.
const cleanupLease = "kyverno-cleanup-controller"

// cleanup is the state of the cleanup controller: its certificates, its server and webhook configurations, the deleting controllers, and
// the watch that makes admission fail open.
type cleanup struct {
	flags     *cleanupFlags
	env       env
	log       *slog.Logger
	manager   manager.Manager
	settings  *settings.Store
	certs     *serving.Certificates
	paths     *serving.Paths
	events    *event.Queue
	observing *telemetry.Telemetry
	webhooks  *webhooks.Cleanup
	discovery *discovery.Discovery
	servers   *discovery.Servers
	globals   *globals.Globals
	server    *admission.Server
	ring      *ring.Ring
	standby   controller.Row
	catalog   *catalog.Catalog
	policies  *cleanupctl.Controller
	scheduled *intake.Policies
	ttl       *ttl.Manager

	unexempted *status.ExceptionErrors
	intake     *intake.Kinds
	filled     atomic.Bool // caches are filled
}

// runCleanup runs the cleanup controller. It returns when ctx is done and the controller has shut down in order.
func runCleanup(ctx context.Context, f *cleanupFlags, e env, b *base) error {
	listener, err := b.listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	m, err := newManager(b, &f.commonFlags, e, cached{
		schemes: []func(*runtime.Scheme) error{
			admissionv1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme, authorizationv1.AddToScheme,
		},
		objects:   webhookObjects(f.Flags, keystore.CleanupRoutes, e, webhookconf.Owners()),
		transform: f.exceptions.transform,
	})
	if err != nil {
		return err
	}
	c := &cleanup{flags: f, env: e, log: b.log, manager: m, settings: &settings.Store{}, catalog: catalog.New(), observing: b.observing, servers: b.servers}
	c.intake = &intake.Kinds{Cache: m.GetCache(), Live: m.GetAPIReader(), Log: b.log}
	c.certs = serving.NewCertificates(f.Flags, e.namespace, e.service, event.CleanupController, m, b.log)
	// The cleanup controller does not check client certificates, so its paths are secret unless the operator disables that.
	c.paths = serving.NewPaths(f.Flags, f.Paths.Secret != serving.PathsOff, keystore.CleanupRoutes, e.namespace, e.deployment, event.CleanupController, m, b.log)
	c.paths.Ours = c.certs.Ours
	serving.WarnOpen(f.Paths, "", b.log)
	if c.events, err = results.NewEvents(b.cfg, f.events, c.settings, b.observing.Metrics, b.log); err != nil {
		return err
	}
	c.certs.Events, c.paths.Events = c.events, c.events
	c.webhooks = c.webhookReconciler()
	b.observing.ObserveCertificates(&c.certs.Keeper)
	l := controller.Process{
		Cache: m.Start,
		Build: func(ctx context.Context) error { return c.build(ctx, b) },
		Serve: func(ctx context.Context) error { return c.server.Run(ctx, listener, c.certs.Get) },
		Fill:  c.watch,
		Rows: func(context.Context) ([]controller.Row, error) {
			c.server.Open()
			c.log.Info("caches are filled")
			return c.rows(), nil
		},
		Election: b.election(f.commonFlags, e, cleanupLease),
		Last:     []func(context.Context){c.events.Run},
		Observer: b.observing.Rows(), Log: b.log,
	}
	return l.Run(ctx)
}

// configured applies what the main ConfigMap says to the policies; nil after its deletion.
func (c *cleanup) configured(s *settings.Settings) {
	if s == nil {
		c.scheduled.AuditFirst(nil)
		return
	}
	c.scheduled.AuditFirst(s.AuditFirst)
	c.observing.Configured()
}

// watch fills the caches.
func (c *cleanup) watch(ctx context.Context) error {
	c.scheduled = intake.NewPolicies(intake.PolicyOptions{Kinds: intake.Scheduled(), Catalog: c.catalog, Server: c.servers.Version, Sink: c.policies, Log: c.log})
	c.servers.Changed(func(kubeversion.Minor) { c.scheduled.Recompile() })
	all := append(c.webhooks.Watches(),
		intake.Watch{Object: &corev1.Secret{}, Handler: c.certs.Handler(ctx)}, intake.Watch{Object: &corev1.Secret{}, Handler: c.paths.Handler()},
		intake.Watch{Object: intake.NamespaceObject(), Handler: toolscache.ResourceEventHandlerFuncs{}},
	)
	all = append(all, c.scheduled.Watches()...)
	all = append(all, c.observing.TakenAll(telemetry.GlobalsName, c.globals.Watches())...)
	// Objects are deleted only after the exceptions that may exempt them are cached.
	exceptions := exceptionsFor(c.flags.exceptions, c.catalog, c.settings, c.manager, c.env.namespace)
	exceptions.Kinds, exceptions.KeepMistaken = intake.Scheduled(), true
	all = append(all, excepted(c.flags.exceptions, exceptions, c.observing, c.servers)...)
	if err := c.intake.Follow(ctx, all); err != nil {
		return err
	}
	c.globals.Settle(ctx)
	c.filled.Store(true)
	return nil
}

// ready returns the reason why this replica cannot serve yet.
func (c *cleanup) ready() error {
	if err := errors.Join(c.certs.Ready(), c.paths.Ready()); err != nil {
		return err
	}
	if !c.filled.Load() {
		return errors.New("the policies have not been read yet")
	}
	return nil
}

// deadMan returns the watch over the admission controller, after whose silence webhooks fail open.
func (c *cleanup) deadMan(grace time.Duration) *failopen.Watch {
	return &failopen.Watch{
		Client: c.manager.GetClient(), Live: c.manager.GetAPIReader(),
		Lease:      client.ObjectKey{Namespace: c.env.namespace, Name: admission.HeartbeatLease},
		Annotation: admission.HeartbeatAnnotation, Grace: grace, Now: time.Now, Log: c.log, Events: c.events,
	}
}

// webhookReconciler returns what writes the webhook configurations of the cleanup controller.
func (c *cleanup) webhookReconciler() *webhooks.Cleanup {
	e, m, changed := c.env, c.manager, &controller.Signal{}
	c.certs.Changed, c.paths.Changed = changed.Fire, changed.Fire
	return &webhooks.Cleanup{
		Changed: changed, Certs: c.certs, Paths: c.paths, Settings: c.settings, Unlocked: serving.Unlocked{Log: c.log},
		ConfigMap: e.configMap, Configured: c.configured, Log: c.log,
		Options: webhookconf.Options{Namespace: e.namespace, Service: e.service, ServicePort: c.flags.ServicePort, ServerIP: c.flags.ServerIP},
		Installation: &serving.Installation{
			Role: e.role, Namespace: e.namespace, Reader: m.GetCache(), Client: m.GetClient(), Events: c.events, Controller: event.CleanupController, Log: c.log,
			Leaving: &controller.Signal{},
		},
		Apply: &webhookconf.Reconciler{
			Client: m.GetClient(), Reader: m.GetCache(), Live: m.GetAPIReader(), Log: c.log, Own: true,
			Hold: serving.HoldUnlocked(m.GetAPIReader(), client.ObjectKey{Namespace: e.namespace, Name: e.configMap}),
		},
	}
}

package app

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/admission"
	deletion "ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/control/cleanup"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/webhooks"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/failopen"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/lookups"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/ttl"
	"ephor.invalid/ephor/internal/webhookconf"
)

// cleanupLease is the name of the cleanup controller's lease.
const cleanupLease = "kyverno-cleanup-controller"

// cleaning is the state of the cleanup controller: its server and webhook configurations, the deleting controllers, and the watch that makes
// admission fail open.
type cleaning struct {
	*process
	*server
	webhooks *webhooks.Cleanup
	ring     *ring.Ring
	standby  controller.Row
	deletion *deletion.Controller
	ttl      *ttl.Manager
}

// runCleanup runs the cleanup controller. It returns when ctx is done and the controller has shut down in order.
func runCleanup(ctx context.Context, f *flags, e env, b *base) error {
	listener, err := b.listen("tcp", net.JoinHostPort(f.cleanup.host, strconv.Itoa(f.cleanup.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	own, service := f.serverOf(nameCleanup, e)
	p, err := newProcess(f, e, b, parts{
		schemes:  []func(*runtime.Scheme) error{admissionv1.AddToScheme, coordinationv1.AddToScheme, rbacv1.AddToScheme},
		objects:  serving.Cached(own, keystore.CleanupRoutes, e.namespace, webhookconf.Owners()),
		policies: intake.PolicyOptions{Kinds: intake.Scheduled()}, reporter: event.CleanupController,
	})
	if err != nil {
		return err
	}
	c := &cleaning{process: p}
	// Objects are deleted only after the exceptions that may exempt them are cached.
	c.exceptions.Kinds, c.exceptions.KeepUnusable = intake.Scheduled(), true
	changed := &controller.Signal{}
	c.server = c.newServer(nameCleanup, keystore.CleanupRoutes, event.CleanupController, changed)
	c.webhooks = &webhooks.Cleanup{
		Changed: changed, Certs: c.certs, Paths: c.paths, Settings: c.settings, Unlocked: c.config.Unlocked, Installation: c.installation, Log: c.log,
		Options: webhookconf.Options{Namespace: e.namespace, Service: service, ServicePort: own.ServicePort, ServerIP: own.ServerIP},
		Apply:   c.apply(false, true),
	}
	return p.run(ctx, cleanupLease, controller.Process{
		Build: c.build,
		Serve: func(ctx context.Context) error { return c.https.Run(ctx, listener, c.certs.Get) },
		Fill:  c.watch,
		Rows: func(context.Context) ([]controller.Row, error) {
			c.https.Open()
			return c.rows(), nil
		},
	})
}

// build creates the server that reviews policies, the controller that executes them, and the watcher of TTL labels.
func (c *cleaning) build(ctx context.Context) error {
	f, m := c.flags, c.manager
	if err := c.paths.Begin(ctx); err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(controller.Paged(c.base.policyConfig))
	if err != nil {
		return err
	}
	meta, err := metadata.NewForConfig(controller.Paged(c.base.metadataConfig))
	if err != nil {
		return err
	}
	root, err := c.world(lookups.Options{Rights: m.GetClient()})
	if err != nil {
		return err
	}
	c.https = admission.NewCleanup(admission.Options{
		Namespace: c.env.namespace, Timeout: webhookconf.ReviewTimeoutSeconds * time.Second, DrainDelay: drainDelay, Log: c.log, Now: time.Now,
		Observer: c.observing.Server(), Paths: c.paths.Answered(), Failed: c.paths.Failed, DumpPayload: f.dumpPayload,
		Review: policyreview.Options{Server: c.base.servers.Version, Accounts: policyreview.Accounts{Cleanup: c.account(ctx)}},
	}, root, c.cluster, c.ready)
	if c.ring, err = c.newRing(deletion.Name); err != nil {
		return err
	}
	if c.standby, err = c.standingBy(cleanupLease, c.ring); err != nil {
		return err
	}
	rights := cleanup.Rights{Client: m.GetClient(), Discovery: c.discovery}
	c.deletion = deletion.New(deletion.Options{
		Executor: &deletion.Executor{
			Resources: c.discovery, Objects: objects, Root: root, NamespaceLabels: c.cluster.NamespaceLabels, Settings: c.settings.Load,
			Protect: f.protectManaged, Eval: c.eval(), Log: c.log,
		},
		Client: m.GetClient(), Missing: rights.Missing, Current: c.current, MaxDeletions: f.cleanup.maxDeletions, Share: c.ring, Identity: c.env.podName, Events: c.events,
		Observer: c.observing.Metrics, Log: c.log, Now: time.Now,
	})
	c.policies.Sink = c.deletion
	c.ttl = ttl.New(ttl.Options{
		Discovery: c.resources, Metadata: meta, Allowed: rights.Allowed, Every: f.cleanup.ttlInterval, MaxDeletions: f.cleanup.maxDeletions,
		Share: c.ring, Namespace: c.env.namespace, Events: c.events, Observer: c.observing.Metrics, Log: c.log, Now: time.Now,
	})
	c.observing.Metrics.TTLWatched(c.ttl.Watched)
	return nil
}

// account returns the service account that deletes objects. It is empty outside a cluster; then no rights are checked.
func (c *cleaning) account(ctx context.Context) string {
	name, err := lookups.Account(ctx, c.manager)
	if err == nil && strings.HasPrefix(name, "system:serviceaccount:") {
		return name
	}
	c.log.Warn("reviews of cleanup policies do not check the rights to delete: this process does not run as a service account", "user", name, "error", err)
	return ""
}

// current returns a policy with its exceptions, or nil if the policy was deleted.
func (c *cleaning) current(p *policy.Program) *policy.Program {
	return c.catalog.Snapshot().Get(p.Identity())
}

// watch fills the caches.
func (c *cleaning) watch(ctx context.Context) error {
	return c.fill(ctx, toolscache.ResourceEventHandlerFuncs{}, nil, c.policies.Watches(), append(c.webhooks.Watches(),
		intake.Watch{Object: &corev1.Secret{}, Handler: c.certs.Handler(ctx)}, intake.Watch{Object: &corev1.Secret{}, Handler: c.paths.Handler()})...)
}

// ready returns the reason why this replica cannot serve yet.
func (c *cleaning) ready() error { return errors.Join(c.server.ready(), c.process.ready()) }

// deadMan returns the watch over the admission controller, after whose silence webhooks fail open.
func (c *cleaning) deadMan(grace time.Duration) *failopen.Watch {
	return &failopen.Watch{
		Client: c.manager.GetClient(), Live: c.manager.GetAPIReader(),
		Lease:      client.ObjectKey{Namespace: c.env.namespace, Name: admission.HeartbeatLease},
		Annotation: admission.HeartbeatAnnotation, Grace: grace, Now: time.Now, Log: c.log, Events: c.events,
	}
}

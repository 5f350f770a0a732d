package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ephor-dev/ephor/internal/admission"
	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/event"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/settings"
	"github.com/ephor-dev/ephor/internal/status"
	"github.com/ephor-dev/ephor/internal/webhookconf"
	"github.com/ephor-dev/ephor/internal/world/live"
)

// lease is the name of the admission controller's lease.
const lease = "kyverno"

// drainDelay is how long the server goes on after SIGTERM while the endpoints' watchers notice.
const drainDelay = 3 * time.Second

// runAdmission is the admission controller. It returns when ctx is done and everything was finished in order: lease
// and tasks first, then the server with its open requests, the cache last.
func runAdmission(ctx context.Context, f *admissionFlags, e env, b *base) error {
	log, observing, cfg := b.log, b.observing, b.cfg
	listener, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	m, err := newManager(cfg, f, e, log)
	if err != nil {
		return err
	}
	resources, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, m.GetHTTPClient())
	if err != nil {
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
	images, err := f.registry.images(e.namespace, m.GetAPIReader(), services)
	if err != nil {
		return err
	}
	clients, err := f.serving.clients()
	if err != nil {
		return err
	}
	p := &process{
		flags: f, env: e, log: log, manager: m, catalog: catalog.New(), settings: &settings.Store{},
		discovery: webhookconf.NewDiscovery(resources, time.Now),
		unlocked:  unlocked{log: log}, wakeBindings: newTrigger(), observing: observing,
	}
	p.policies = newPolicies(p.catalog, f.forceIgnore, log)
	p.certs = newCertificates(f.certificateFlags, e.namespace, e.service, event.AdmissionController, m, log)
	p.certs.changed = p.policies.changed.fire
	p.heartbeat = &heartbeat{client: m.GetClient(), namespace: e.namespace, now: time.Now, log: log, changed: p.policies.changed.fire}
	p.observeState()
	p.cluster = &cluster{cached: m.GetCache(), live: m.GetAPIReader(), discovery: p.discovery}

	if p.events, err = newEvents(cfg, f.events, p.settings, observing.metrics.EventDropped, log); err != nil {
		return err
	}
	work, err := newWork(cfg, e.namespace, p.settings, p.events, observing.metrics, log)
	if err != nil {
		return err
	}

	p.certs.events = p.events
	p.installation = &installation{
		namespace: e.namespace, reader: m.GetCache(), client: m.GetClient(), events: p.events, log: log, leaving: newTrigger(),
	}

	// The cache outlives ctx: requests that are finished during the drain still ask it.
	cacheCtx, stopCache := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCache()
	cacheDone := make(chan error, 1)
	go func() { cacheDone <- m.Start(cacheCtx) }()

	if p.globals, err = newGlobals(cacheCtx, cfg, f.globals, api, services, p.events, log); err != nil {
		return err
	}
	server := admission.New(admission.Options{
		Namespace: e.namespace, Timeout: time.Duration(f.webhookTimeout) * time.Second,
		AuditWorkers: f.auditWorkers, AuditCapacity: f.auditCapacity, DrainDelay: drainDelay, Log: log, Now: time.Now,
		Observer: observing.server(), Eval: observing.tracer.Eval(engine.Eval),
		Exceptions: admission.Exceptions{Enabled: f.exceptions.enabled, Namespace: f.exceptions.namespace},
		Clients:    clients, ProtectManaged: f.serving.protectManaged, DumpPayload: f.serving.dumpPayload, Deferred: work,
		Tell:           tellResults(p.events, p.catalog.Snapshot),
		ReviewWebhooks: func(program *policy.Program) diag.List { return webhookconf.Review(program, p.discovery) },
		Accounts:       admission.Accounts{Background: f.serving.backgroundAccount, Reports: f.reportsAccount},
	}, p.catalog.Snapshot, p.settings, observing.tracer.World(&live.Root{
		Reader: m.GetAPIReader(), Labels: p.cluster.NamespaceLabels, API: api, Services: services,
		Globals: p.globals.store, Images: images, Access: live.Access{Creator: m.GetClient()}, Kinds: p.cluster,
	}), p.cluster, p.ready)

	run, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	var failures = make(chan error, 3)
	served := make(chan struct{})
	running.Go(func() {
		defer close(served)
		failures <- server.Run(run, listener, p.certs.get)
		stop()
	})
	// These go on until the last request is answered: its work and its events may still have to be written.
	last, end := context.WithCancel(context.WithoutCancel(run))
	running.Go(func() { <-served; end() })
	running.Go(func() { work.Run(last) })
	running.Go(func() { p.events.Run(last) })
	running.Go(func() {
		if err := p.watch(run); err != nil && run.Err() == nil {
			failures <- err
			stop()
			return
		}
		server.Open()
		p.policies.observe(observing.metrics.PolicyChanged) // what was there before is no change
		log.Info("caches are filled", "policies", len(p.catalog.Snapshot().Programs()))
		p.every(run, &running)
		if err := lead(run, cfg, lease, e.namespace, e.podName, f.leaderRetryPeriod, p.leaderTasks(), log); err != nil {
			failures <- err
			stop()
		}
	})
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

// process is the state of the admission controller.
type process struct {
	flags     *admissionFlags
	env       env
	log       *slog.Logger
	manager   manager.Manager
	catalog   *catalog.Catalog
	settings  *settings.Store
	certs     *certificates
	unlocked  unlocked
	heartbeat *heartbeat
	events    *event.Queue
	// installation is what the webhook configurations go away with.
	installation *installation
	policies     *policies
	globals      *globals
	discovery    *webhookconf.Discovery
	cluster      *cluster

	observing *observing

	wakeBindings trigger
	filled       atomic.Bool // caches are filled and all policies compiled
	rolesWanted  atomic.Bool // some policy asks for roles
	rolesKnown   atomic.Bool // the bindings are indexed
}

// ready tells why this replica cannot serve yet. It is a matter of this replica alone.
func (p *process) ready() error {
	if err := p.certs.ready(); err != nil {
		return err
	}
	if !p.filled.Load() {
		return errors.New("the policies have not been read yet")
	}
	if p.rolesWanted.Load() && !p.rolesKnown.Load() {
		return errors.New("the role bindings have not been read yet")
	}
	return nil
}

// watch starts the informers with their handlers and waits until everything that exists has been taken in.
func (p *process) watch(ctx context.Context) error {
	config := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    p.loadSettings,
		UpdateFunc: func(_, obj any) { p.loadSettings(obj) },
		DeleteFunc: func(any) { p.unlocked.load(nil); p.settings.Set(nil); p.policies.changed.fire() },
	}
	drift := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.policies.changed.fire() },
		UpdateFunc: func(any, any) { p.policies.changed.fire() },
		DeleteFunc: func(any) { p.policies.changed.fire() },
	}
	all := []watched{
		{&corev1.Secret{}, p.certs.handler(ctx)}, {&corev1.ConfigMap{}, config}, {namespaceObject(), p.installation.handler()},
		{ownerObject(), drift},
		{policyObject(clusterPolicyGVK), p.policies.handler()}, {policyObject(policyGVK), p.policies.handler()},
		{policyObject(globalEntryGVK), p.globals.handler()},
		{&admissionv1.ValidatingWebhookConfiguration{}, drift}, {&admissionv1.MutatingWebhookConfiguration{}, drift},
	}
	if p.flags.exceptions.on() {
		follow := &exceptions{flags: p.flags.exceptions, catalog: p.catalog, log: p.log}
		all = append(all, watched{policyObject(exceptionGVK), follow.handler()})
	}
	if err := watchAll(ctx, p.manager.GetCache(), all); err != nil {
		return err
	}
	if err := p.watchKinds(ctx); err != nil {
		return err
	}
	p.globals.settle(ctx)
	p.filled.Store(true)
	return nil
}

func (p *process) loadSettings(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != p.env.configMap {
		return
	}
	p.unlocked.load(cm)
	s, diags := settings.Parse(cm.Data)
	for _, d := range diags {
		p.log.Warn("ConfigMap has a mistake", "configMap", cm.Name, "path", d.Path, "mistake", d.Summary, "hint", d.Hint)
	}
	usable, mistakes := webhookconf.CheckConditions(s.Webhook.MatchConditions)
	for _, err := range mistakes {
		p.log.Warn("ConfigMap has a mistake", "configMap", cm.Name, "path", "data.matchConditions", "mistake", err)
	}
	s.Webhook.MatchConditions = usable // nobody else holds the settings yet
	p.settings.Set(s)
	p.wakeBindings.fire()
	p.policies.changed.fire()
}

// every starts what runs in each replica.
func (p *process) every(ctx context.Context, running *sync.WaitGroup) {
	changed, cancel := p.catalog.Subscribe()
	running.Go(func() {
		defer cancel()
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
				p.observing.metrics.Forget()
				p.wakeBindings.fire()
			}
		}
	})
	for _, t := range []task{
		{name: "role-bindings", wake: p.wakeBindings, once: p.watchBindings},
		p.certs.watch(),
		{name: "installation", wake: p.installation.leaving, once: p.installation.remove},
	} {
		t = p.observing.counted(t)
		running.Go(func() { t.run(ctx, p.log) })
	}
}

// watchBindings begins to cache role bindings as soon as a policy or the settings ask for roles.
func (p *process) watchBindings(ctx context.Context) (time.Duration, error) {
	if p.rolesKnown.Load() {
		return 0, nil
	}
	wanted := p.settings.Load().NeedsRoles()
	for _, program := range p.catalog.Snapshot().Programs() {
		for _, r := range program.Rules {
			wanted = wanted || r.Needs.Roles
		}
	}
	if !wanted {
		return 0, nil
	}
	p.rolesWanted.Store(true)
	if err := p.cluster.indexBindings(ctx); err != nil {
		return 0, fmt.Errorf("watch role bindings: %w", err)
	}
	p.rolesKnown.Store(true)
	return 0, nil
}

// leaderTasks are the controllers that only one replica runs.
func (p *process) leaderTasks() []task {
	f, e, m := p.flags, p.env, p.manager
	follow := &follow{
		catalog: p.catalog, policies: p.policies, settings: p.settings, resources: p.discovery, reader: m.GetCache(),
		certs: p.certs, unlocked: &p.unlocked, heartbeat: p.heartbeat,
		options: webhookconf.Options{
			Namespace: e.namespace, Service: e.service, ServicePort: f.servicePort, ServerIP: f.serverIP,
			TimeoutSeconds: f.webhookTimeout, AdmissionReports: f.admissionReports, Protects: f.serving.protectManaged,
			Static: !f.webhooks.follow, ExcludeBootstrap: f.webhooks.excludeBootstrap, Derive: f.webhooks.derive,
		},
		installation: p.installation,
		apply: &webhookconf.Reconciler{
			Client: m.GetClient(), Reader: m.GetCache(), Live: m.GetAPIReader(), Log: p.log, Static: !f.webhooks.follow,
		},
		status: &status.Writer{Client: m.GetClient()},
		log:    p.log,
	}
	tasks := []task{
		{name: "webhooks", wake: p.policies.changed, once: follow.once},
		{name: "heartbeat", wake: newTrigger(), once: p.heartbeat.once},
		{name: "global-context", wake: p.globals.changed, once: p.globals.writeStatus(follow.status)},
	}
	tasks = append(tasks, p.certs.leaderTasks()...)
	for i := range tasks {
		tasks[i] = p.observing.counted(tasks[i])
	}
	return tasks
}

package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/control/decisions"
	"ephor.invalid/ephor/internal/control/events"
	"ephor.invalid/ephor/internal/control/native"
	"ephor.invalid/ephor/internal/control/reports"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/control/webhooks"
	"ephor.invalid/ephor/internal/control/work"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/lookups"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	policystatus "ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/telemetry"
	"ephor.invalid/ephor/internal/updaterequest/enqueue"
	"ephor.invalid/ephor/internal/vapgen"
	"ephor.invalid/ephor/internal/webhookconf"
)

// lease is the name of the admission controller's lease.
const lease = "kyverno"

// drainDelay is how long the server keeps answering after SIGTERM, until the clients of its endpoints notice the shutdown.
const drainDelay = 3 * time.Second

// admitting is the state of the admission controller, which answers reviews and maintains what makes the API server ask.
type admitting struct {
	*process
	*server
	heartbeat *serving.Heartbeat
	work      *enqueue.Writer
	waiting   *controller.Signal // UpdateRequests wait to be written
	sending   *reports.Sending   // sends results; nil if none are sent
	decisions *decision.Feed     // nil if decisions are not recorded
	renewal   []controller.Row   // of the certificate with which decisions are sent
	exceeded  *status.Exceeded
	approvals *status.Approvals
	used      *status.ExceptionUse
	asked     *webhooks.Answers
	// policiesChanged is fired after each event for a policy, and after other changes that affect the webhook configurations; configured after
	// each event for the settings.
	policiesChanged, configured *controller.Signal
}

// runAdmission runs the admission controller. It returns when ctx is done and the controller has shut down in order.
func runAdmission(ctx context.Context, f *flags, e env, b *base) error {
	listener, err := b.listen("tcp", net.JoinHostPort(f.admission.host, strconv.Itoa(f.admission.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	p, err := newAdmitting(f, e, b)
	if err != nil {
		return err
	}
	down := &webhooks.Shutdown{Live: p.manager.GetAPIReader(), Client: p.manager.GetClient(), Log: p.log}
	if f.serving.ServerIP == "" {
		down.Deployment = client.ObjectKey{Namespace: e.namespace, Name: e.deployment}
	}
	defer work.LeavePending(b.cfg, p.manager.GetRESTMapper(), e.namespace, p.log)
	return p.run(ctx, lease, controller.Process{
		Build: p.build,
		Serve: func(ctx context.Context) error { return p.https.Run(ctx, listener, p.certs.Get) },
		Fill:  p.watch,
		Rows: func(ctx context.Context) ([]controller.Row, error) {
			p.https.Open()
			down.Begin(ctx)
			return p.rows(), nil
		},
		After: down.End,
		Last:  []func(context.Context){p.work.End, p.sending.End, p.decisions.Run},
	})
}

// newAdmitting returns the parts of the admission controller without starting them.
func newAdmitting(f *flags, e env, b *base) (*admitting, error) {
	a := &admitting{waiting: &controller.Signal{}, policiesChanged: &controller.Signal{}, configured: &controller.Signal{}}
	objects := serving.Cached(f.serving, keystore.Routes, e.namespace, serving.RolesOfControllers())
	maps.Copy(objects, definitions())
	maps.Copy(objects, lookups.CachedBindings())
	var err error
	if a.process, err = newProcess(f, e, b, parts{
		schemes: []func(*runtime.Scheme) error{admissionv1.AddToScheme, rbacv1.AddToScheme}, objects: objects, reporter: event.AdmissionController,
		policies: intake.PolicyOptions{
			Kinds: intake.Requests(), Compile: family.Options{Types: knownTypes, OnlyListed: !f.admission.subresources}, ForceIgnore: f.admission.forceIgnore,
			Seen: a.policiesChanged.Fire,
		},
	}); err != nil {
		return nil, err
	}
	if mutating := compile.Kinds.Named(vapgen.Mutating.Kind); f.admission.requireMutating {
		if ok, err := discovery.Serves(a.resources, mutating.Group, mutating.Kind, mutating.Versions...); err != nil {
			return nil, err
		} else if !ok {
			return nil, fmt.Errorf("--%s: the API server does not serve %s", flagRequireMutating, mutating.Kind)
		}
	}
	m := a.manager
	a.asked = webhooks.NewAnswers(m.GetClient(), time.Now)
	a.server = a.newServer(nameAdmission, keystore.Routes, event.AdmissionController, a.policiesChanged)
	a.config.Reports, a.config.Changed = true, func() { a.configured.Fire(); a.policiesChanged.Fire() }
	a.exceeded = status.NewExceeded(a.policies, m.GetClient(), a.log)
	a.approvals = status.NewApprovals(m.GetClient(), m.GetAPIReader(), a.seals(keystore.Exceptions), a.log)
	a.used = status.NewExceptionUse(m.GetClient(), m.GetAPIReader())
	a.heartbeat = &serving.Heartbeat{Client: m.GetClient(), Namespace: e.namespace, Now: time.Now, Log: a.log, Changed: a.policiesChanged.Fire, Missed: a.paths.Failed}
	b.observing.ObservePolicies(a.policies)
	if a.work, err = work.NewWriter(b.cfg, m.GetRESTMapper(), a.settings, a.events, b.observing, a.waiting.Fire); err != nil {
		return nil, err
	}
	if f.admissionReports {
		if a.sending, err = reports.NewSending(b.cfg, m.GetRESTMapper(), b.observing, ephemeral.Admission, f.admission.maxReports, &f.reporting); err != nil {
			return nil, err
		}
	}
	a.decisions, a.renewal, err = f.admission.decisions.Record(a.recorder(event.AdmissionController), a.keys(keystore.Decisions))
	return a, err
}

// recorder returns the process for what records decisions or keeps them.
func (p *process) recorder(reporter string) decisions.Process {
	return decisions.Process{Config: p.base.cfg, Telemetry: p.observing, Pod: p.env.podName, Events: p.events, Controller: reporter}
}

// build creates the server that answers reviews, and the World of policies.
func (p *admitting) build(ctx context.Context) error {
	f, a, m := p.flags, &p.flags.admission, p.manager
	if err := p.paths.Begin(ctx); err != nil {
		return err
	}
	clients, err := f.clients.Clients(p.log)
	if err != nil {
		return err
	}
	if clients.Tokens, err = f.clients.Tokens(p.base.cfg, m.GetRESTMapper(), p.env.service, p.env.namespace); err != nil {
		return err
	}
	root, err := p.world(lookups.Options{Registry: &f.registry, Rights: m.GetClient(), Seals: p.seals(keystore.Images)})
	if err != nil {
		return err
	}
	var record func(decision.Review)
	if p.decisions != nil {
		record = p.decisions.Put
	}
	p.https = admission.New(admission.Options{
		Record: record, Lookups: a.decisions.Lookups(),
		Namespace: p.env.namespace, Timeout: time.Duration(a.webhookTimeout) * time.Second,
		AuditWorkers: a.auditWorkers, AuditCapacity: a.auditCapacity, DrainDelay: drainDelay, Log: p.log, Now: time.Now,
		Observer: p.observing.Server(), Eval: p.used.Eval(p.eval()), Exceeded: p.exceeded.Record,
		Paths: p.paths.Answered(), Failed: p.paths.Failed, StoredUID: p.cluster.StoredUID,
		Clients: clients, ProtectManaged: f.protectManaged, DumpPayload: f.dumpPayload, Deferred: p.work, FixedWebhooks: !a.follow,
		Report: p.sending.AfterReporting(events.OfRequests(p.events)),
		Review: policyreview.Options{
			Exceptions: policyreview.Exceptions{Enabled: f.exceptions.Enabled, Namespace: f.exceptions.Namespace, Approval: f.exceptions.Approval, Approved: p.approvals.Approve, Controllers: p.env.namespace},
			Accounts:   policyreview.Accounts{Background: a.backgroundAccount, Reports: a.reportsAccount},
			Permitted:  family.Permissions{ServicesInNamespaces: f.calls.Namespaced},
			Server:     p.base.servers.Version,
			Webhooks: func(program *policy.Program) diag.List {
				return webhookconf.Review(program, p.discovery, p.config.Conditions, !a.follow)
			},
		},
	}, p.catalog.Snapshot, p.settings, root, p.cluster, p.ready)
	return nil
}

// ready returns the reason why this replica cannot serve yet.
func (p *admitting) ready() error {
	return errors.Join(p.server.ready(), p.process.ready(), p.cluster.Ready())
}

// watch fills the caches.
func (p *admitting) watch(ctx context.Context) error {
	drift := handler(func(any) { p.policiesChanged.Fire() })
	return p.fill(ctx, p.installation.Handler(), p.policiesChanged.Fire, p.observing.TakenAll(telemetry.PoliciesName, p.policies.Watches()),
		intake.Watch{Object: &corev1.Secret{}, Handler: p.certs.Handler(ctx)}, intake.Watch{Object: &corev1.Secret{}, Handler: p.paths.Handler()},
		intake.Watch{Object: serving.OwnerObject(), Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { p.rolesChanged() },
			UpdateFunc: func(before, after any) {
				if intake.Changed(before, after) {
					p.rolesChanged()
				}
			},
			DeleteFunc: func(any) { p.rolesChanged() },
		}},
		intake.Watch{Object: &admissionv1.ValidatingWebhookConfiguration{}, Handler: p.paths.Configurations(drift)},
		intake.Watch{Object: &admissionv1.MutatingWebhookConfiguration{}, Handler: p.paths.Configurations(drift)},
	)
}

// handler returns a handler that calls f for each event.
func handler(f func(any)) toolscache.ResourceEventHandlerFuncs {
	return toolscache.ResourceEventHandlerFuncs{AddFunc: f, UpdateFunc: func(_, obj any) { f(obj) }, DeleteFunc: f}
}

// rolesChanged checks everything again that depends on the controllers' ClusterRoles: the owner of the webhook configurations, and the
// rights of the controllers.
func (p *admitting) rolesChanged() {
	p.asked.Doubt()
	p.policiesChanged.Fire()
}

// rolesNeeded reports whether a policy or the settings use roles.
func (p *admitting) rolesNeeded() bool {
	needed := p.settings.Load().NeedsRoles()
	for _, program := range p.catalog.Snapshot().Programs() {
		for _, r := range program.Rules {
			needed = needed || r.Needs.Roles
		}
	}
	return needed
}

// webhookReconciler returns what writes the webhook configurations and the status of policies.
func (p *admitting) webhookReconciler() *webhooks.Reconciler {
	f, a, m := p.flags, &p.flags.admission, p.manager
	apply := p.apply(!a.follow, false)
	return &webhooks.Reconciler{
		Catalog: p.catalog, Policies: p.policies, Settings: p.settings, Discovery: p.discovery, Conditions: p.config.Conditions, Reader: m.GetCache(),
		Certs: p.certs, Paths: p.paths, Unlocked: p.config.Unlocked, Heartbeat: p.heartbeat, Installation: p.installation,
		Options: webhookconf.Options{
			Namespace: p.env.namespace, Service: p.env.service, ServicePort: f.serving.ServicePort, ServerIP: f.serving.ServerIP,
			TimeoutSeconds: a.webhookTimeout, AdmissionReports: f.admissionReports, Protects: f.protectManaged,
			Static: !a.follow, ExcludeBootstrap: a.excludeBootstrap, Derive: a.derive,
			Approvals: f.exceptions.On() && f.exceptions.Approval,
		},
		Apply: apply, Offenders: &webhookconf.Offenders{Reconciler: apply, Now: time.Now},
		Status: &policystatus.Writer{Client: m.GetClient()}, Withholds: f.registry.Withholds,
		Rights: &webhooks.ScanRights{Account: a.reportsAccount, Access: p.asked}, Asked: p.asked, Work: a.backgroundAccount,
		Events: p.events, Metrics: p.observing.Metrics, Log: p.log,
	}
}

// nativeReconciler returns what generates policies of the API server.
func (p *admitting) nativeReconciler(w *webhooks.Reconciler) *native.Reconciler {
	m := p.manager
	return &native.Reconciler{
		Off:      map[*vapgen.Native]bool{vapgen.Validating: !p.flags.admission.generateNative},
		Policies: p.policies, Catalog: p.catalog, Resources: p.discovery, Status: w.Status, Configured: w.Configured,
		Apply: &vapgen.Reconciler{Client: m.GetClient(), Reader: m.GetAPIReader(), Events: p.events, Log: p.log}, Log: p.log,
	}
}

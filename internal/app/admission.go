package app

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/control/webhooks"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/ephemeral"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/kubeversion"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/vapgen"
	"ephor.invalid/ephor/internal/webhookconf"
)

// lease is the name of the admission controller's lease.
const lease = "kyverno"

// drainDelay is how long the server keeps answering after SIGTERM, until the clients of its endpoints notice the shutdown.
const drainDelay = 3 * time.Second

// runAdmission runs the admission controller. It returns when ctx is done and the controller has shut down in order.
func runAdmission(ctx context.Context, f *admissionFlags, e env, b *base) error {
	listener, err := b.listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer listener.Close()
	p, err := newProcess(f, e, b)
	if err != nil {
		return err
	}
	var server *admission.Server
	down := p.removeOnShutdown()
	l := controller.Process{
		Cache: p.manager.Start,
		Build: func(ctx context.Context) (err error) {
			server, err = p.server(ctx, b)
			return err
		},
		Serve: func(ctx context.Context) error { return server.Run(ctx, listener, p.certs.Get) },
		Fill:  p.watch,
		Rows: func(ctx context.Context) ([]controller.Row, error) {
			server.Open()
			p.observing.ObserveChanges(p.policies)
			p.log.Info("caches are filled", "policies", len(p.catalog.Snapshot().Programs()))
			down.begin(ctx)
			return p.rows(), nil
		},
		Election: b.election(f.commonFlags, e, lease),
		After:    down.end,
		Last:     []func(context.Context){p.work.End, p.events.Run, p.sending.Run, p.decisions.Run},
		Observer: b.observing.Rows(), Log: b.log,
	}
	defer leavePending(b, e, p.log)
	return l.Run(ctx)
}

// newProcess returns the parts of the admission controller without starting them.
func newProcess(f *admissionFlags, e env, b *base) (*process, error) {
	log, observing, cfg := b.log, b.observing, b.cfg
	m, err := newManager(b, &f.commonFlags, e, admissionObjects(f, e))
	if err != nil {
		return nil, err
	}
	resources, err := clientdiscovery.NewDiscoveryClientForConfigAndClient(cfg, m.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	if f.requireMutating {
		if ok, err := serves(resources, compile.Kinds.Named(vapgen.Mutating.Kind)); err != nil {
			return nil, err
		} else if !ok {
			return nil, fmt.Errorf("--%s: the API server does not serve %s", flagRequireMutating, vapgen.Mutating.Kind)
		}
	}
	p := &process{
		flags: f, env: e, log: log, manager: m, catalog: catalog.New(), settings: &settings.Store{},
		discovery: discovery.New(resources, time.Now), conditions: webhooks.NewConditions(resources), asked: webhooks.NewAnswers(m.GetClient(), time.Now),
		unlocked: serving.Unlocked{Log: log}, configured: &controller.Signal{}, waiting: &controller.Signal{}, observing: observing,
		intake: &intake.Kinds{Cache: m.GetCache(), Live: m.GetAPIReader(), Log: log}, kindsDefined: &controller.Signal{}, policiesChanged: &controller.Signal{},
	}
	p.policies = intake.NewPolicies(intake.PolicyOptions{
		Kinds: intake.Requests(), Catalog: p.catalog, Compile: family.Options{Types: knownTypes, OnlyListed: !f.webhooks.subresources}, Server: b.servers.Version, ForceIgnore: f.forceIgnore,
		Seen: p.policiesChanged.Fire, Log: log,
	})
	p.servers = b.servers
	p.servers.Changed(func(kubeversion.Minor) { p.policies.Recompile() })
	p.exceeded = status.NewExceeded(p.policies, m.GetClient(), log)
	p.exceptions = exceptionsFor(f.exceptions, p.catalog, p.settings, m, e.namespace)
	p.approvals = status.NewApprovals(m.GetClient(), m.GetAPIReader(), approvalSeals(m, e.namespace), log)
	p.certs = serving.NewCertificates(f.Flags, e.namespace, e.service, event.AdmissionController, m, log)
	p.certs.Changed = p.policiesChanged.Fire
	p.paths = serving.NewPaths(f.Flags, f.secretPaths(), keystore.Routes, e.namespace, e.deployment, event.AdmissionController, m, log)
	p.paths.Changed, p.paths.Ours = p.policiesChanged.Fire, p.certs.Ours
	serving.WarnOpen(f.Paths, f.serving.clientCA, log)
	p.heartbeat = &serving.Heartbeat{Client: m.GetClient(), Namespace: e.namespace, Now: time.Now, Log: log, Changed: p.policiesChanged.Fire, Missed: p.paths.Failed}
	observing.ObservePolicies(p.policies)
	observing.ObserveCertificates(&p.certs.Keeper)
	p.cluster = &cluster{cached: m.GetCache(), live: m.GetAPIReader(), Discovery: p.discovery}
	if p.events, err = results.NewEvents(cfg, f.events, p.settings, observing.Metrics, log); err != nil {
		return nil, err
	}
	p.unexempted = status.NewExceptionErrors(m.GetClient(), p.events, event.AdmissionController, observing.Metrics, log)
	if p.work, err = newWork(cfg, e.namespace, p.settings, p.events, observing.Metrics, p.waiting.Fire, log); err != nil {
		return nil, err
	}
	if f.admissionReports {
		if p.sending, err = results.NewSending(results.SendingOptions{
			Config: b.cfg, Namespace: e.namespace, Source: ephemeral.Admission, Max: f.maxReports, Flags: &f.reporting, Metrics: observing.Metrics, Log: log,
		}); err != nil {
			return nil, err
		}
	}
	var configure func() (*tls.Config, error)
	if configure, p.renewSender, err = sendDecisions(&f.sender, observing, cfg); err != nil {
		return nil, err
	}
	observing.Tracer.Redact(f.decisions.Redaction())
	if p.decisions, err = f.decisions.Open(configure, decisionDigests(m, e.namespace), storeDamaged(p.events, e, event.AdmissionController), observing.Metrics, log); err != nil {
		return nil, err
	}
	p.certs.Events, p.paths.Events = p.events, p.events
	p.installation = &serving.Installation{
		Role:      p.env.role,
		Namespace: e.namespace, Reader: m.GetCache(), Client: m.GetClient(), Events: p.events, Controller: event.AdmissionController, Log: log,
		Leaving: &controller.Signal{},
	}
	return p, nil
}

// storeDamaged returns the function that writes an event when a damaged store of decisions was moved away.
func storeDamaged(events event.Recorder, e env, controller string) func(path string, err error) {
	return func(path string, err error) {
		events.Record(event.Event{
			Regarding: event.Reference{APIVersion: "v1", Kind: "Pod", Namespace: e.namespace, Name: e.podName}, Type: event.Warning, Reason: event.PolicyError, Action: event.None,
			Controller: controller, Note: fmt.Sprintf("the store of decisions was damaged and moved to %s; a new store was created: %v", path, err),
		})
	}
}

// server returns the server that answers reviews, and the World of policies. Global context is refreshed until ctx is done.
func (p *process) server(ctx context.Context, b *base) (*admission.Server, error) {
	f, e, m, observing := p.flags, p.env, p.manager, p.observing
	if err := p.paths.Begin(ctx); err != nil {
		return nil, err
	}
	clients, err := f.serving.clients()
	if err != nil {
		return nil, err
	}
	if clients.Tokens, err = f.serving.tokens(e, b.cfg); err != nil {
		return nil, err
	}
	root, entries, err := lookups{
		namespace: e.namespace, calls: &f.calls, registry: &f.registry, globals: f.globals, rights: m.GetClient(), cluster: p.cluster, events: p.events, log: p.log,
		seals: imageSeals(m, e.namespace),
	}.open(ctx, b, m)
	if err != nil {
		return nil, err
	}
	p.globals = entries
	var record func(decision.Review)
	if p.decisions != nil {
		record = p.decisions.Put
	}
	return admission.New(admission.Options{
		Record:    record,
		Lookups:   f.decisions.Lookups(),
		Namespace: e.namespace, Timeout: time.Duration(f.webhookTimeout) * time.Second,
		AuditWorkers: f.auditWorkers, AuditCapacity: f.auditCapacity, DrainDelay: drainDelay, Log: p.log, Now: time.Now,
		Observer: observing.Server(), Eval: p.unexempted.Eval(observing.Tracer.Eval(engine.Eval)), Exceeded: p.exceeded.Note,
		Paths: p.paths.Answered(), Failed: p.paths.Failed, StoredUID: p.cluster.StoredUID,
		Clients: clients, ProtectManaged: f.serving.protectManaged, DumpPayload: f.serving.dumpPayload, Deferred: p.work, FixedWebhooks: !f.webhooks.follow,
		Report: p.sending.AfterReporting(results.RecordRequests(p.events)),
		Review: policyreview.Options{
			Exceptions: policyreview.Exceptions{Enabled: f.exceptions.enabled, Namespace: f.exceptions.namespace, Approval: f.exceptions.approval, Approved: p.approvals.Approve},
			Accounts:   policyreview.Accounts{Background: f.serving.backgroundAccount, Reports: f.reportsAccount},
			Permitted:  family.Permissions{ServicesInNamespaces: f.calls.namespaced},
			Server:     b.servers.Version,
			Webhooks: func(program *policy.Program) diag.List {
				return webhookconf.Review(program, p.discovery, p.conditions, !f.webhooks.follow)
			},
		},
	}, p.catalog.Snapshot, p.settings, root, p.cluster, p.ready), nil
}

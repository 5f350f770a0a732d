package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"ephor.invalid/ephor/internal/app/results"
	"ephor.invalid/ephor/internal/app/telemetry"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/control/globals"
	"ephor.invalid/ephor/internal/control/native"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/status"
	"ephor.invalid/ephor/internal/control/webhooks"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/decision"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/settings"
	policystatus "ephor.invalid/ephor/internal/status"
	"ephor.invalid/ephor/internal/updaterequest/enqueue"
	"ephor.invalid/ephor/internal/vapgen"
	"ephor.invalid/ephor/internal/webhookconf"
)

// process is the state of the admission controller.
type process struct {
	flags     *admissionFlags
	env       env
	log       *slog.Logger
	manager   manager.Manager
	catalog   *catalog.Catalog
	settings  *settings.Store
	certs     *serving.Certificates
	paths     *serving.Paths
	unlocked  serving.Unlocked
	heartbeat *serving.Heartbeat
	events    *event.Queue
	work      *enqueue.Writer
	waiting   *controller.Signal // UpdateRequests wait to be written
	sending   *results.Sending   // sends results; nil if none are sent
	decisions *decision.Feed     // nil if decisions are not recorded
	// renewSender renews the certificate with which decisions are sent; nil if they are not sent.
	renewSender *controller.Row
	// installation removes the webhook configurations when the namespace is deleted.
	installation *serving.Installation
	policies     *intake.Policies
	exceeded     *status.Exceeded
	unexempted   *status.ExceptionErrors
	used         *status.ExceptionUse
	exceptions   *intake.Exceptions
	approvals    *status.Approvals
	asked        *webhooks.Answers
	globals      *globals.Globals
	discovery    *discovery.Discovery
	cluster      *cluster
	conditions   *webhookconf.Conditions
	servers      *discovery.Servers

	observing *telemetry.Telemetry
	intake    *intake.Kinds
	// kindsDefined is fired when a custom kind is added or removed. policiesChanged is fired after each event for a policy, and after
	// other changes that affect the webhook configurations.
	kindsDefined, policiesChanged *controller.Signal

	configured  *controller.Signal // fired after each event for the settings
	filled      atomic.Bool        // caches are filled and all policies compiled
	rolesWanted atomic.Bool        // a policy uses roles
	rolesKnown  atomic.Bool        // the bindings are indexed
}

// ready returns the reason why this replica cannot serve yet. It does not depend on other replicas.
func (p *process) ready() error {
	if err := errors.Join(p.certs.Ready(), p.paths.Ready()); err != nil {
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

// watch starts the informers with their handlers, and waits until all existing objects are handled.
func (p *process) watch(ctx context.Context) error {
	config := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    p.loadSettings,
		UpdateFunc: func(_, obj any) { p.loadSettings(obj) },
		DeleteFunc: func(any) {
			p.unlocked.Load(nil)
			p.settings.Set(nil)
			p.policies.AuditFirst(nil)
			p.policiesChanged.Fire()
		},
	}
	drift := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { p.policiesChanged.Fire() },
		UpdateFunc: func(any, any) { p.policiesChanged.Fire() },
		DeleteFunc: func(any) { p.policiesChanged.Fire() },
	}
	all := []intake.Watch{
		{Object: &corev1.Secret{}, Handler: p.certs.Handler(ctx)}, {Object: &corev1.Secret{}, Handler: p.paths.Handler()},
		{Object: &corev1.ConfigMap{}, Handler: config}, {Object: intake.NamespaceObject(), Handler: p.installation.Handler()},
		{Object: serving.OwnerObject(), Handler: toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { p.rolesChanged() },
			UpdateFunc: func(before, after any) {
				if versionOf(before) != versionOf(after) {
					p.rolesChanged()
				}
			},
			DeleteFunc: func(any) { p.rolesChanged() },
		}},
		{Object: &admissionv1.ValidatingWebhookConfiguration{}, Handler: p.paths.Configurations(drift)},
		{Object: &admissionv1.MutatingWebhookConfiguration{}, Handler: p.paths.Configurations(drift)},
	}
	all = append(all, p.observing.TakenAll(telemetry.PoliciesName, p.policies.Watches())...)
	all = append(all, lookedUp(p.globals, p.flags.exceptions, p.exceptions, p.observing, p.servers)...)
	if err := p.intake.Follow(ctx, all); err != nil {
		return err
	}
	// Nothing waits for the definitions. Without them, a missing kind is looked up twice a minute.
	if err := intake.WatchDefinitions(ctx, p.manager.GetCache(), func() {
		p.discovery.Invalidate()
		p.kindsDefined.Fire()
		p.policiesChanged.Fire()
	}); err != nil {
		return err
	}
	p.globals.Settle(ctx)
	p.filled.Store(true)
	return nil
}

// rolesChanged checks everything again that depends on the controllers' ClusterRoles: the owner of the webhook configurations, and the
// rights of the controllers.
func (p *process) rolesChanged() {
	p.asked.Doubt()
	p.policiesChanged.Fire()
}

func versionOf(obj any) string {
	o, _ := obj.(metav1.Object)
	if o == nil {
		return ""
	}
	return o.GetResourceVersion()
}

func (p *process) loadSettings(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != p.env.configMap {
		return
	}
	p.unlocked.Load(cm)
	s, diags := settings.Parse(cm.Data)
	for _, d := range diags {
		p.log.Warn("ConfigMap has a mistake", "configMap", cm.Name, "path", d.Path, "mistake", d.Summary, "hint", d.Hint)
	}
	usable, mistakes := webhookconf.CheckConditions(s.Webhook.MatchConditions, p.conditions)
	for _, err := range mistakes {
		p.log.Warn("ConfigMap has a mistake", "configMap", cm.Name, "path", "data.matchConditions", "mistake", err)
	}
	s.Webhook.MatchConditions = usable // the settings are not shared yet
	p.settings.Set(s)
	p.policies.AuditFirst(s.AuditFirst)
	p.observing.Configured()
	p.configured.Fire()
	p.policiesChanged.Fire()
}

// removeOnShutdown returns the part that removes the configurations when no replica remains.
func (p *process) removeOnShutdown() *removeOnShutdown {
	s := &removeOnShutdown{live: p.manager.GetAPIReader(), client: p.manager.GetClient(), log: p.log}
	if p.flags.ServerIP == "" {
		s.deployment = client.ObjectKey{Namespace: p.env.namespace, Name: p.env.deployment}
	}
	return s
}

// watchBindings starts to cache role bindings once a policy or the settings use roles.
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

// webhookReconciler returns what writes the webhook configurations and the status of policies.
func (p *process) webhookReconciler() *webhooks.Reconciler {
	f, e, m := p.flags, p.env, p.manager
	apply := &webhookconf.Reconciler{
		Client: m.GetClient(), Reader: m.GetCache(), Live: m.GetAPIReader(), Log: p.log, Static: !f.webhooks.follow,
		Hold: serving.HoldUnlocked(m.GetAPIReader(), client.ObjectKey{Namespace: e.namespace, Name: e.configMap}),
	}
	out := &webhooks.Reconciler{
		Catalog: p.catalog, Policies: p.policies, Settings: p.settings, Discovery: p.discovery, Conditions: p.conditions, Reader: m.GetCache(),
		Certs: p.certs, Paths: p.paths, Unlocked: &p.unlocked, Heartbeat: p.heartbeat, Installation: p.installation,
		Options: webhookconf.Options{
			Namespace: e.namespace, Service: e.service, ServicePort: f.ServicePort, ServerIP: f.ServerIP,
			TimeoutSeconds: f.webhookTimeout, AdmissionReports: f.admissionReports, Protects: f.serving.protectManaged,
			Static: !f.webhooks.follow, ExcludeBootstrap: f.webhooks.excludeBootstrap, Derive: f.webhooks.derive,
			Approvals: f.exceptions.on() && f.exceptions.approval,
		},
		Apply: apply, Offenders: &webhookconf.Offenders{Reconciler: apply, Now: time.Now},
		Status: &policystatus.Writer{Client: m.GetClient()}, Withholds: f.registry.withholds,
		Rights: &webhooks.ScanRights{Account: f.reportsAccount, Access: p.asked}, Asked: p.asked, Work: f.serving.backgroundAccount,
		Events: p.events, Log: p.log,
	}
	p.observing.Metrics.LeftOut(out.LeftOut)
	return out
}

// nativeReconciler returns what generates policies of the API server.
func (p *process) nativeReconciler(w *webhooks.Reconciler) *native.Reconciler {
	m := p.manager
	return &native.Reconciler{
		Off:      map[*vapgen.Native]bool{vapgen.Validating: !p.flags.generateNative},
		Policies: p.policies, Catalog: p.catalog, Resources: p.discovery, Status: w.Status, Configured: w.Configured,
		Apply: &vapgen.Reconciler{Client: m.GetClient(), Reader: m.GetAPIReader(), Events: p.events, Log: p.log}, Log: p.log,
	}
}

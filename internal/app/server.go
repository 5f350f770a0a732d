package app

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/admission"
	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/control/webhooks"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/webhookconf"
)

// server is what a controller with webhooks has in addition: its certificates, its paths, and the server that answers reviews.
type server struct {
	https *admission.Server
	certs *serving.Certificates
	paths *serving.Paths
	// installation removes the webhook configurations when the namespace is deleted.
	installation *serving.Installation
}

// newServer returns the server of a controller; build adds the part that answers reviews. secret is the name of the Secret of its paths, and
// changed is fired when its webhook configurations may have to change.
func (p *process) newServer(name, secret, reporter string, changed *controller.Signal) *server {
	f, e, m := p.flags, p.env, p.manager
	own, service := f.serverOf(name, e)
	clients := f.clients
	if name == nameCleanup {
		clients = serving.ClientFlags{} // this controller does not check client certificates
	}
	s := &server{
		certs: serving.NewCertificates(own, e.namespace, service, reporter, m, p.log),
		paths: serving.NewPaths(own, clients, secret, e.namespace, e.deployment, reporter, m, p.log),
		installation: &serving.Installation{
			Role: e.role, Namespace: e.namespace, Reader: m.GetCache(), Client: m.GetClient(), Events: p.events, Controller: reporter, Log: p.log,
			Leaving: &controller.Signal{},
		},
	}
	s.certs.Events, s.paths.Events = p.events, p.events
	s.certs.Changed, s.paths.Changed, s.paths.Ours = changed.Fire, changed.Fire, s.certs.Ours
	p.config.Unlocked, p.config.Conditions, p.config.Changed = &serving.Unlocked{Log: p.log}, webhooks.NewConditions(p.resources), changed.Fire
	p.observing.ObserveCertificates(&s.certs.Keeper)
	return s
}

// apply returns what writes webhook configurations. own: only those of this controller.
func (p *process) apply(static, own bool) *webhookconf.Reconciler {
	m := p.manager
	return &webhookconf.Reconciler{
		Client: m.GetClient(), Reader: m.GetCache(), Live: m.GetAPIReader(), Log: p.log, Static: static, Own: own,
		Hold: serving.HoldUnlocked(m.GetAPIReader(), client.ObjectKey{Namespace: p.env.namespace, Name: p.env.configMap}),
	}
}

// ready returns the reason why this replica cannot serve yet.
func (s *server) ready() error { return errors.Join(s.certs.Ready(), s.paths.Ready()) }

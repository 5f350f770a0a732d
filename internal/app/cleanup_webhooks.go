package app

import (
	"context"
	"errors"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/app/webhookserver"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/lifecycle"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/webhookconf"
)

// cleanupWebhooks reconciles the webhook configurations of the cleanup controller.
type cleanupWebhooks struct {
	*cleanup
	wake         lifecycle.Trigger
	installation *webhookserver.Installation
	unlocked     webhookserver.Unlocked
	apply        *webhookconf.Reconciler
}

// newCleanupWebhooks returns the controller of the configurations. One replica runs its method once.
func newCleanupWebhooks(c *cleanup) *cleanupWebhooks {
	m := c.manager
	w := &cleanupWebhooks{
		cleanup: c, wake: lifecycle.NewTrigger(), unlocked: webhookserver.Unlocked{Log: c.log},
		installation: &webhookserver.Installation{
			Role:      c.env.role,
			Namespace: c.env.namespace, Reader: m.GetCache(), Client: m.GetClient(), Events: c.events, Controller: event.CleanupController, Log: c.log,
			Leaving: lifecycle.NewTrigger(),
		},
		apply: &webhookconf.Reconciler{Client: m.GetClient(), Reader: m.GetCache(), Live: m.GetAPIReader(), Log: c.log, Own: true,
			Hold: webhookserver.HoldUnlocked(m.GetAPIReader(), client.ObjectKey{Namespace: c.env.namespace, Name: c.env.configMap})},
	}
	c.certs.Changed, c.paths.Changed = w.wake.Fire, w.wake.Fire
	return w
}

// once runs one round, like the admission controller's (webhookReconciler.once).
func (w *cleanupWebhooks) once(ctx context.Context) (time.Duration, error) {
	return w.paths.Round(ctx, &w.unlocked, w.write)
}

// write writes the configurations with these paths, and reports whether all of them were written.
func (w *cleanupWebhooks) write(ctx context.Context, path func(string) string) (written bool, again time.Duration, err error) {
	bundle, err := w.certs.Bundle(ctx)
	if err != nil {
		return false, 0, err
	}
	if bundle == nil {
		w.log.Info("waiting for the certificate authority", "secret", w.certs.Flags.CASecret)
		return false, 0, nil // the creation of the missing object starts another round
	}
	if leaving, err := w.installation.Terminating(ctx); err != nil || leaving {
		return false, 0, err // the admission controller deletes the configurations, and they must not be created again
	}
	owner, err := w.installation.Owner(ctx)
	if err != nil || owner == nil {
		return false, 0, err // without an owner, the configurations would never be removed; its creation starts a new round
	}
	want := webhookconf.DesiredCleanup(webhookconf.Input{
		Settings: w.settings.Load(), CABundle: bundle, Owner: owner,
		Options: webhookconf.Options{
			Namespace: w.env.namespace, Service: w.env.service, ServicePort: w.flags.ServicePort, ServerIP: w.flags.ServerIP,
			Path: path,
		},
	})
	_, err = w.apply.Apply(ctx, want)
	if apierrors.IsConflict(err) || errors.Is(err, webhookserver.ErrUnlocked) {
		return false, webhookserver.RetryConflict, nil // the cache is older than a write, usually our own
	}
	return err == nil, 0, err
}

// watched returns the kinds on which the configurations depend.
func (w *cleanupWebhooks) watched() []intake.Watch {
	news := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.wake.Fire() },
		UpdateFunc: func(any, any) { w.wake.Fire() },
		DeleteFunc: func(any) { w.wake.Fire() },
	}
	config := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    w.configure,
		UpdateFunc: func(_, obj any) { w.configure(obj) },
		DeleteFunc: func(any) { w.unlocked.Load(nil); w.settings.Set(nil); w.scheduled.AuditFirst(nil); w.wake.Fire() },
	}
	return []intake.Watch{
		{Object: &corev1.ConfigMap{}, Handler: config}, {Object: webhookserver.OwnerObject(), Handler: news},
		{Object: &admissionv1.ValidatingWebhookConfiguration{}, Handler: w.paths.Configurations(news)}, {Object: &admissionv1.MutatingWebhookConfiguration{}, Handler: toolscache.ResourceEventHandlerFuncs{}},
	}
}

// configure applies the main ConfigMap. The admission controller reports mistakes in it.
func (w *cleanupWebhooks) configure(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != w.env.configMap {
		return
	}
	w.unlocked.Load(cm)
	s, _ := settings.Parse(cm.Data)
	s.Webhook.MatchConditions, _ = webhookconf.CheckConditions(s.Webhook.MatchConditions, w.conditions) // the settings are not shared yet
	w.settings.Set(s)
	w.scheduled.AuditFirst(s.AuditFirst)
	w.observing.Configured()
	w.wake.Fire()
}

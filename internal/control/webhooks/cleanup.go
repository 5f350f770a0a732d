package webhooks

import (
	"context"
	"log/slog"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"ephor.invalid/ephor/internal/control/serving"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/webhookconf"
)

// Cleanup reconciles the webhook configurations of the cleanup controller.
type Cleanup struct {
	Changed      *controller.Signal // after each change on which the configurations depend
	Certs        *serving.Certificates
	Paths        *serving.Paths
	Settings     *settings.Store
	Installation *serving.Installation
	Unlocked     *serving.Unlocked
	Apply        *webhookconf.Reconciler
	Options      webhookconf.Options
	Log          *slog.Logger
}

// Once writes the configurations with the current paths, like that of the Reconciler.
func (w *Cleanup) Once(ctx context.Context) (time.Duration, error) {
	return w.Paths.Round(ctx, w.Unlocked, w.write)
}

// write writes the configurations with these paths, and reports whether all of them were written.
func (w *Cleanup) write(ctx context.Context, path func(string) string) (written bool, again time.Duration, err error) {
	bundle, err := w.Certs.Bundle(ctx)
	if err != nil {
		return false, 0, err
	}
	if bundle == nil {
		w.Log.Info("waiting for the certificate authority", "secret", w.Certs.Flags.CASecret)
		return false, 0, nil // the creation of the missing object starts another round
	}
	if leaving, err := w.Installation.Terminating(ctx); err != nil || leaving {
		return false, 0, err // the admission controller deletes the configurations, and they must not be created again
	}
	owner, err := w.Installation.Owner(ctx)
	if err != nil || owner == nil {
		return false, 0, err // without an owner, the configurations would never be removed; its creation starts a new round
	}
	options := w.Options
	options.Path = path
	want := webhookconf.DesiredCleanup(webhookconf.Input{
		Settings: w.Settings.Load(), CABundle: bundle, Owner: owner,
		Options: options,
	})
	_, err = w.Apply.Apply(ctx, want)
	return err == nil, 0, err
}

// Watches returns the kinds on which the configurations depend.
func (w *Cleanup) Watches() []intake.Watch {
	news := toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { w.Changed.Fire() },
		UpdateFunc: func(any, any) { w.Changed.Fire() },
		DeleteFunc: func(any) { w.Changed.Fire() },
	}
	return []intake.Watch{
		{Object: serving.OwnerObject(), Handler: news},
		{Object: &admissionv1.ValidatingWebhookConfiguration{}, Handler: w.Paths.Configurations(news)}, {Object: &admissionv1.MutatingWebhookConfiguration{}, Handler: toolscache.ResourceEventHandlerFuncs{}},
	}
}

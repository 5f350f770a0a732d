package webhooks

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/failopen"
	"ephor.invalid/ephor/internal/webhookconf"
)

// keepFailOpen preserves failurePolicy Ignore in configurations that the cleanup controller made fail open (--deadManSeconds),
// until this process knows that reviews are answered. Then the configurations are written as planned and fail closed; those of fixed webhooks, whose
// content stays as it is stored, are changed here.
func (f *Reconciler) keepFailOpen(ctx context.Context, want webhookconf.Configurations) error {
	switch healthy := f.Heartbeat.Healthy(); {
	case healthy && f.Options.Static:
		return f.failClosed(ctx)
	case healthy:
		return nil
	}
	for _, c := range want.Validating {
		if err := f.keepOneFailOpen(ctx, c, &admissionv1.ValidatingWebhookConfiguration{}); err != nil {
			return err
		}
	}
	for _, c := range want.Mutating {
		if err := f.keepOneFailOpen(ctx, c, &admissionv1.MutatingWebhookConfiguration{}); err != nil {
			return err
		}
	}
	return nil
}

// failClosed lets the stored configurations fail closed again.
func (f *Reconciler) failClosed(ctx context.Context) error {
	stored, err := webhookconf.List(ctx, f.Reader)
	for _, o := range stored {
		if !webhookconf.IsResource(o.GetName()) || !failopen.FailClosed(o) {
			continue
		}
		if failed := f.Apply.Client.Update(ctx, o); failed != nil {
			return fmt.Errorf("update the webhook configuration %s: %w", o.GetName(), failed)
		}
		f.Log.Info("webhooks fail closed again", "configuration", o.GetName())
	}
	return err
}

func (f *Reconciler) keepOneFailOpen(ctx context.Context, want, stored client.Object) error {
	err := f.Reader.Get(ctx, client.ObjectKeyFromObject(want), stored)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	failopen.Preserve(stored, want)
	return nil
}

package webhooks

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/failopen"
	"ephor.invalid/ephor/internal/webhookconf"
)

// keepFailOpen preserves failurePolicy Ignore in configurations that the cleanup controller made fail open (--deadManSeconds),
// until this process knows that reviews are answered. Then the configurations are written as planned and fail closed.
func (f *Reconciler) keepFailOpen(ctx context.Context, want webhookconf.Configurations) error {
	if f.Heartbeat.Healthy() {
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

func (f *Reconciler) keepOneFailOpen(ctx context.Context, want, stored client.Object) error {
	err := f.Reader.Get(ctx, client.ObjectKeyFromObject(want), stored)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	failopen.Preserve(stored, want)
	return nil
}

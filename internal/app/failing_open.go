package app

import (
	"context"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ephor-dev/ephor/internal/deadman"
	"github.com/ephor-dev/ephor/internal/webhookconf"
)

// keepOpen leaves the configurations open that the dead-man mode of the cleanup controller made fail open, until this
// process knows that reviews are answered. Then they are written as they should be, and with that shut.
func (f *follow) keepOpen(ctx context.Context, want webhookconf.Configurations) error {
	if f.heartbeat.Healthy() {
		return nil
	}
	for _, c := range want.Validating {
		if err := f.keepOneOpen(ctx, c, &admissionv1.ValidatingWebhookConfiguration{}); err != nil {
			return err
		}
	}
	for _, c := range want.Mutating {
		if err := f.keepOneOpen(ctx, c, &admissionv1.MutatingWebhookConfiguration{}); err != nil {
			return err
		}
	}
	return nil
}

func (f *follow) keepOneOpen(ctx context.Context, want, stored client.Object) error {
	err := f.reader.Get(ctx, client.ObjectKeyFromObject(want), stored)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	deadman.Keep(stored, want)
	return nil
}

package webhookconf

import (
	"context"
	"fmt"
	"log/slog"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reconciler writes the configurations that differ from what is stored. Only the leader runs it.
type Reconciler struct {
	Client client.Writer
	// Reader gives the stored configurations; a cached copy will do, since a write with an old copy is refused.
	Reader client.Reader
	// Live reads past the cache; it is asked when a configuration that the cache does not know exists all the same.
	Live client.Reader
	Log  *slog.Logger
}

// Apply stores the configurations and returns how many it wrote. Drift made by others is reverted: labels, annotations
// and webhooks are ours.
func (r *Reconciler) Apply(ctx context.Context, want Configurations) (written int, err error) {
	for _, c := range want.Validating {
		changed, err := r.one(ctx, c, &admissionv1.ValidatingWebhookConfiguration{}, func(stored client.Object) bool {
			s := stored.(*admissionv1.ValidatingWebhookConfiguration)
			same := equality.Semantic.DeepEqual(s.Webhooks, c.Webhooks)
			s.Webhooks = c.Webhooks
			return same
		})
		if err != nil {
			return written, err
		}
		written += changed
	}
	for _, c := range want.Mutating {
		changed, err := r.one(ctx, c, &admissionv1.MutatingWebhookConfiguration{}, func(stored client.Object) bool {
			s := stored.(*admissionv1.MutatingWebhookConfiguration)
			same := equality.Semantic.DeepEqual(s.Webhooks, c.Webhooks)
			s.Webhooks = c.Webhooks
			return same
		})
		if err != nil {
			return written, err
		}
		written += changed
	}
	return written, nil
}

// one stores a single configuration. take copies the wanted webhooks into the stored object and reports whether they
// were the same.
func (r *Reconciler) one(ctx context.Context, want, stored client.Object, take func(client.Object) bool) (int, error) {
	name := want.GetName()
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(want), stored)
	if apierrors.IsNotFound(err) {
		err = r.Client.Create(ctx, want)
		if err == nil {
			r.Log.Info("created webhook configuration", "name", name)
			return 1, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return 0, fmt.Errorf("create webhook configuration %s: %w", name, err)
		}
		// It exists but is not in our cache, which holds only what carries our label.
		err = r.Live.Get(ctx, client.ObjectKeyFromObject(want), stored)
	}
	if err != nil {
		return 0, fmt.Errorf("read webhook configuration %s: %w", name, err)
	}
	same := take(stored)
	if same && equality.Semantic.DeepEqual(stored.GetLabels(), want.GetLabels()) &&
		equality.Semantic.DeepEqual(stored.GetAnnotations(), want.GetAnnotations()) {
		return 0, nil
	}
	stored.SetLabels(want.GetLabels())
	stored.SetAnnotations(want.GetAnnotations())
	if err := r.Client.Update(ctx, stored); err != nil {
		return 0, fmt.Errorf("update webhook configuration %s: %w", name, err)
	}
	r.Log.Info("updated webhook configuration", "name", name)
	return 1, nil
}

package devcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/secretpath"
)

// LongPaths are flags for tests that post reviews directly to a server for a long time: the paths that WebhookPath
// returned at the start remain valid.
var LongPaths = []string{"--webhookPathRotation=48h", "--webhookPathOverlap=24h"}

// WebhookPath returns the path at which a controller, Admission or Cleanup, currently answers reviews for a plain path
// such as /validate/fail: with the secret segment if it has one.
func (e *Ephor) WebhookPath(ctx context.Context, component, plain string) (string, error) {
	name := keystore.Routes
	if component == Cleanup {
		name = keystore.CleanupRoutes
	}
	c, err := client.New(e.cluster.Config, client.Options{})
	if err != nil {
		return "", err
	}
	var secret corev1.Secret
	err = c.Get(ctx, client.ObjectKey{Namespace: e.controllers[component].namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return plain, nil // the controller uses plain paths
	}
	if err != nil {
		return "", fmt.Errorf("read the key of the webhook paths: %w", err)
	}
	ring, err := keystore.Parse(&secret)
	if err != nil {
		return "", err
	}
	epochs, err := secretpath.ParseEpochs(secret.Annotations[secretpath.EpochsAnnotation])
	if err != nil {
		return "", err
	}
	return secretpath.NewEpoch(ring.Current(), epochs.Current.ID).Path(plain), nil
}

package unlock

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/keystore"
	"ephor.invalid/ephor/internal/secretpath"
	"ephor.invalid/ephor/internal/webhookconf"
)

// repath gives stored configurations the secret segments that are in force now. The stored segments may have expired, and the servers
// would not answer them until a controller has written the configurations again.
func (in *Installation) repath(ctx context.Context, objects []client.Object) error {
	paths := map[string]func(string) string{}
	for _, o := range objects {
		name := keystore.Routes
		if n := o.GetName(); n == webhookconf.CleanupValidating || n == webhookconf.TTLValidating {
			name = keystore.CleanupRoutes
		}
		if _, read := paths[name]; !read {
			path, err := in.path(ctx, name)
			if err != nil {
				return err
			}
			paths[name] = path
		}
		if path := paths[name]; path != nil {
			webhookconf.Repath(o, path)
		}
	}
	return nil
}

// path returns a function that computes the paths of the server whose key is in the Secret; nil without a usable Secret.
func (in *Installation) path(ctx context.Context, name string) (func(string) string, error) {
	var secret corev1.Secret
	err := in.Client.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: name}, &secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the key of the webhook paths in the Secret %s/%s: %w", in.Namespace, name, err)
	}
	ring, err := keystore.Parse(&secret)
	if err != nil {
		return nil, nil //nolint:nilerr // the controllers write it again; restoring may not depend on it
	}
	epochs, err := secretpath.ParseEpochs(secret.Annotations[secretpath.EpochsAnnotation])
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	return secretpath.NewEpoch(ring.Current(), epochs.Current.ID).Path, nil
}

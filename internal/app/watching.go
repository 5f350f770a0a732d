package app

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watched is a kind whose objects a process keeps in its cache, with its handlers of changes.
type watched struct {
	object  client.Object
	handler toolscache.ResourceEventHandler
}

// watchAll starts the informers with their handlers and waits until everything that exists has been taken in.
func watchAll(ctx context.Context, from cache.Cache, all []watched) error {
	var synced []toolscache.InformerSynced
	for _, w := range all {
		informer, err := from.GetInformer(ctx, w.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watch %s: %w", kindOf(w.object), err)
		}
		registration, err := informer.AddEventHandler(w.handler)
		if err != nil {
			return err
		}
		synced = append(synced, registration.HasSynced) // true once the handler has seen the first list
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	return nil
}

// kindOf names the kind of an object for people.
func kindOf(o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
}

// onlySecrets keeps the contents of the two Secrets of a server and of the one with the key of its paths, and of no other
// one: they may be of any type when users supply them.
func onlySecrets(f certificateFlags, paths string) toolscache.TransformFunc {
	return func(obj any) (any, error) {
		if s, ok := obj.(*corev1.Secret); ok {
			s.SetManagedFields(nil)
			if s.Name != f.caSecret && s.Name != f.tlsSecret && s.Name != paths {
				s.Data, s.StringData, s.Annotations = nil, nil, nil
			}
		}
		return obj, nil
	}
}

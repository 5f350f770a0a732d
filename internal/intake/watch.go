package intake

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Watch is a kind whose objects a process keeps in its cache, with the handler of changes.
type Watch struct {
	Object client.Object
	// Resource is the name of a custom kind in URLs; empty for other kinds.
	Resource string
	// Older are versions in which the kind is followed if the API server does not serve the version of Object, best first. They are for
	// unstructured objects.
	Older []string
	// Optional: an installation may lack the kind.
	Optional bool
	Handler  toolscache.ResourceEventHandler
}

// Object returns the object by which a kind is watched as unstructured data.
func Object(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u
}

// Deleted returns the object of a deletion in its last known state.
func Deleted(obj any) any {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return obj
}

// start starts the informer of a kind with its handler. synced reports whether the handler has seen all existing objects.
func start(ctx context.Context, from cache.Cache, w Watch) (synced toolscache.InformerSynced, err error) {
	informer, err := informerOf(ctx, from, w)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", kindOf(w.Object), err)
	}
	registration, err := informer.AddEventHandler(w.Handler)
	if err != nil {
		return nil, err
	}
	return registration.HasSynced, nil
}

// informerOf returns the informer of a kind in the best version that is served.
func informerOf(ctx context.Context, from cache.Cache, w Watch) (cache.Informer, error) {
	informer, err := from.GetInformer(ctx, w.Object, cache.BlockUntilSynced(false))
	for _, version := range w.Older {
		if !meta.IsNoMatchError(err) {
			break
		}
		gvk := w.Object.GetObjectKind().GroupVersionKind()
		gvk.Version = version
		older, more := from.GetInformer(ctx, Object(gvk), cache.BlockUntilSynced(false))
		if more == nil || !meta.IsNoMatchError(more) {
			informer, err = older, more
		}
	}
	return informer, err
}

// kindOf returns the name of an object's kind for messages.
func kindOf(o client.Object) string {
	if kind := o.GetObjectKind().GroupVersionKind().Kind; kind != "" {
		return kind
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", o), "*v1.")
}

package intake

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefinitionObject returns the object by which definitions of custom kinds are watched; only their creation, change and deletion
// matter.
func DefinitionObject() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

// NamespaceObject returns the object by which namespaces are watched; only their metadata matter.
func NamespaceObject() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	return o
}

// WatchDefinitions calls changed when a custom kind is created, changed or deleted.
func WatchDefinitions(ctx context.Context, from cache.Cache, changed func()) error {
	informer, err := from.GetInformer(ctx, DefinitionObject(), cache.BlockUntilSynced(false))
	if err != nil {
		return err
	}
	news := repeated(ctx, changed, servedAfter...)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(_ any, initial bool) {
			if !initial {
				news()
			}
		},
		UpdateFunc: func(before, after any) {
			if Changed(before, after) {
				news()
			}
		},
		DeleteFunc: func(any) { news() },
	})
	return err
}

// servedAfter are the times after which changed is called again: the API server may serve objects of a kind before it lists the
// kind.
var servedAfter = []time.Duration{time.Second, 3 * time.Second}

// repeated calls changed at once, and again at the given times after the last call.
func repeated(ctx context.Context, changed func(), after ...time.Duration) func() {
	var mu sync.Mutex
	var later []*time.Timer
	return func() {
		changed()
		mu.Lock()
		defer mu.Unlock()
		for _, t := range later {
			t.Stop()
		}
		later = later[:0]
		for _, d := range after {
			later = append(later, time.AfterFunc(d, func() {
				if ctx.Err() == nil {
					changed()
				}
			}))
		}
	}
}

// Changed reports whether an update of an informer is a change of the object, and not only a resync.
func Changed(before, after any) bool {
	a, ok := before.(metav1.Object)
	b, also := after.(metav1.Object)
	return ok && also && a.GetResourceVersion() != b.GetResourceVersion()
}

// defined reports whether a custom kind has a definition. Without the right to read definitions it returns false.
func (k *Kinds) defined(ctx context.Context, w Watch) bool {
	if w.Resource == "" || k.Live == nil {
		return false
	}
	name := w.Resource + "." + w.Object.GetObjectKind().GroupVersionKind().Group
	return k.Live.Get(ctx, client.ObjectKey{Name: name}, DefinitionObject()) == nil
}

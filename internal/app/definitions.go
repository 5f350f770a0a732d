package app

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// crdObject stands for the definitions of custom kinds, of which only the coming and going is of interest.
func crdObject() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return o
}

// watchKinds looks at the served kinds again when a custom kind comes or goes. Nothing waits for it: without it, a kind
// that a policy names is looked for twice a minute.
func (p *process) watchKinds(ctx context.Context) error {
	return watchDefinitions(ctx, p.manager.GetCache(), func() { p.discovery.Invalidate(); p.policies.changed.fire() })
}

// watchDefinitions calls changed when a custom kind comes, changes or goes.
func watchDefinitions(ctx context.Context, from cache.Cache, changed func()) error {
	informer, err := from.GetInformer(ctx, crdObject(), cache.BlockUntilSynced(false))
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
			if versionOf(before) != versionOf(after) { // not only looked at again
				news()
			}
		},
		DeleteFunc: func(any) { news() },
	})
	return err
}

// servedAfter is when the API server has surely taken up a definition: it may serve objects of a kind before it lists it.
var servedAfter = []time.Duration{time.Second, 3 * time.Second}

// repeated calls changed at once and again after the last call.
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

func versionOf(obj any) string {
	if o, ok := obj.(metav1.Object); ok {
		return o.GetResourceVersion()
	}
	return ""
}

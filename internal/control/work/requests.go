package work

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/intake"
	"ephor.invalid/ephor/internal/observe"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/execute"
)

// Cached returns the UpdateRequests of a namespace for a cache, each reduced to its identity, its generation and its key.
func Cached(namespace string) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{object(): {Namespaces: map[string]cache.Config{namespace: {}}, Transform: onlyGeneration}}
}

func object() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kyvernov2.GroupVersion.WithKind("UpdateRequest"))
	return o
}

func onlyGeneration(obj any) (any, error) {
	if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
		key := updaterequest.KeyOf(o)
		o.ObjectMeta = metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Generation: o.Generation}
		if key != "" {
			o.Labels = map[string]string{updaterequest.LabelKey: key}
		}
	}
	return obj, nil
}

// Watch hands the names of UpdateRequests to the worker, and counts them.
func Watch(w *execute.Worker, m *observe.Metrics) intake.Watch {
	add := func(obj any) {
		if o, ok := obj.(*metav1.PartialObjectMetadata); ok {
			w.Add(o.Name, updaterequest.KeyOf(o))
		}
	}
	exist := 0 // an informer reports objects one by one
	counted := func(more int) {
		exist += more
		m.UpdateRequests(exist)
	}
	counted(0)
	return intake.Watch{Object: object(), Handler: toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			counted(1)
			add(obj)
		},
		UpdateFunc: func(old, obj any) {
			before, ok := old.(*metav1.PartialObjectMetadata)
			after, also := obj.(*metav1.PartialObjectMetadata)
			if ok && also && (before.Generation != after.Generation || before.UID != after.UID) {
				add(obj)
			}
		},
		DeleteFunc: func(obj any) {
			counted(-1)
			if name, err := toolscache.DeletionHandlingObjectToName(obj); err == nil {
				w.Forget(name.Name)
			}
		},
	}}
}

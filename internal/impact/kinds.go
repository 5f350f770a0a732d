package impact

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/policyreview"
)

// Kinds has the resources of requests: those that a cluster serves or, without a cluster, those of the requests so far.
type Kinds struct {
	policyreview.Discovery // nil without a cluster
	mu                     sync.RWMutex
	met                    map[discovery.Resource]bool
	list                   discovery.List
	version                atomic.Uint64
}

// NewKinds returns the Kinds of a cluster; for nil, the Kinds of the requests.
func NewKinds(cluster policyreview.Discovery) *Kinds {
	return &Kinds{Discovery: cluster, met: map[discovery.Resource]bool{}}
}

// meet adds the resource of a request, and returns the version of the list that contains it.
func (k *Kinds) meet(r *policy.Request) uint64 {
	if k.Discovery != nil {
		return 0
	}
	for _, x := range resourcesOf(r) {
		k.mu.RLock()
		known := k.met[x]
		k.mu.RUnlock()
		if known {
			continue
		}
		k.mu.Lock()
		if !k.met[x] {
			k.met[x] = true
			k.list = append(slices.Clip(k.list), x)
			k.version.Add(1)
		}
		k.mu.Unlock()
	}
	return k.version.Load()
}

// resourcesOf returns the main resource of a request and its subresource.
func resourcesOf(r *policy.Request) []discovery.Resource {
	main := discovery.Resource{Group: r.GVR.Group, Version: r.GVR.Version, Resource: r.GVR.Resource, Kind: r.RequestGVK.Kind, Namespaced: r.Namespace != "", Preferred: true, Listable: true, Readable: true, Body: r.RequestGVK}
	if r.RequestGVK.GroupKind() == (schema.GroupKind{Kind: "Namespace"}) {
		main.Namespaced = false // a request for a Namespace names it as its namespace
	}
	if r.Subresource == "" {
		return []discovery.Resource{main}
	}
	sub := main
	sub.Subresource = r.Subresource
	parent, known := wellKnown(r.GVR)
	if !known {
		if sub.Body.Group != r.GVR.Group || sub.Body.Version != r.GVR.Version {
			return nil // the body is of another kind, such as Scale
		}
		parent = sub.Kind
	}
	main.Kind, sub.Kind = parent, parent
	main.Body = schema.GroupVersionKind{Group: main.Group, Version: main.Version, Kind: parent}
	return []discovery.Resource{main, sub}
}

// wellKnown returns the kind of a resource that every cluster serves.
func wellKnown(gvr schema.GroupVersionResource) (kind string, ok bool) {
	kinds, _ := builtin()[gvr]
	return kinds, kinds != ""
}

// builtin maps the resources of Kubernetes itself to their kinds.
var builtin = sync.OnceValue(func() map[schema.GroupVersionResource]string {
	out := map[schema.GroupVersionResource]string{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		out[discovery.ResourceOf(gvk)] = gvk.Kind
	}
	return out
})

// Find implements discovery.Resources.
func (k *Kinds) Find(t policy.Target) ([]discovery.Resource, error) {
	if k.Discovery != nil {
		return k.Discovery.Find(t)
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.list.Find(t)
}

// BodyOf implements policyreview.Discovery.
func (k *Kinds) BodyOf(kind string) []string {
	if k.Discovery != nil {
		return k.Discovery.BodyOf(kind)
	}
	return nil
}

// KindFor implements policyreview.Discovery.
func (k *Kinds) KindFor(ctx context.Context, gvr schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	if k.Discovery != nil {
		return k.Discovery.KindFor(ctx, gvr)
	}
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, r := range k.list {
		if r.GVR() == gvr && r.Subresource == "" {
			return r.GVK(), nil
		}
	}
	return schema.GroupVersionKind{}, fmt.Errorf("the kind of the resource %s is not known without a cluster", gvr.GroupResource())
}

package index

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/policy"
)

// placeKey is what rules are filed under, where some are written by resource. Else the kind alone is.
type placeKey struct {
	kind       string
	resource   schema.GroupVersionResource
	namespaced bool
}

// maxPlaces bounds the places that are kept. A cluster has some hundred kinds; the bound is for requests with made-up ones,
// which the command line can be given.
const maxPlaces = 4096

// places are the places of the requests that came so far, by kind alone or by resource.
type places struct {
	byKind     cache[string, place]
	byResource cache[placeKey, place]
}

// place holds the entries for one kind and resource, and the views made of them so far.
type place struct {
	entries [][]entry
	views   cache[viewKey, view]
}

// place is that of the request.
func (x *Index) place(r *policy.Request) *place {
	if !x.byResource {
		if p := x.places.byKind.load(r.GVK.Kind); p != nil {
			return p
		}
		return x.places.byKind.add(r.GVK.Kind, maxPlaces, func() *place { return &place{entries: x.filed(r.GVK.Kind, "")} })
	}
	key := placeKey{r.GVK.Kind, r.GVR, r.ObjectNamespace() != ""}
	if p := x.places.byResource.load(key); p != nil {
		return p
	}
	return x.places.byResource.add(key, maxPlaces, func() *place { return &place{entries: x.filed(key.kind, key.resource.Resource)} })
}

// filed returns the entries that may be for a kind and a resource. Where a request does not say its resource, those for each
// resource are.
func (x *Index) filed(kind, resource string) [][]entry {
	out := [][]entry{x.kinds[kind]}
	if resource != "" {
		out = append(out, x.resources[resource])
	} else {
		for _, list := range x.resources {
			out = append(out, list)
		}
	}
	return append(out, x.wild)
}

// keep takes over the places of old that a change is not about.
func (p *places) keep(old *places, changed *touched) {
	if changed.wild {
		return
	}
	p.byKind.keep(&old.byKind, func(kind string) bool { return !changed.kinds[kind] })
	p.byResource.keep(&old.byResource, func(k placeKey) bool { return !changed.concerns(k) })
}

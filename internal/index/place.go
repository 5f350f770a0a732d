package index

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/policy"
)

// placeKey is the key by which rules are filed: the kind, and the resource if some rules name resources.
type placeKey struct {
	kind       string
	resource   schema.GroupVersionResource
	namespaced bool
}

// maxPlaces bounds the number of places. A cluster has some hundred kinds; the bound is for requests on the command line, which may have
// invented kinds.
const maxPlaces = 4096

// places are the places of earlier requests, by kind alone or by resource.
type places struct {
	byKind     cache[string, place]
	byResource cache[placeKey, place]
}

// place holds the entries for one kind and resource, and the views of them.
type place struct {
	entries [][]entry
	views   cache[viewKey, view]
}

// place returns the place of the request.
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

// filed returns the entries that may match a kind and a resource. If a request does not name its resource, it returns the entries for each
// resource.
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

// keep copies the places of old that a change does not affect.
func (p *places) keep(old *places, changed *touched) {
	if changed.wild {
		return
	}
	p.byKind.keep(&old.byKind, func(kind string) bool { return !changed.kinds[kind] })
	p.byResource.keep(&old.byResource, func(k placeKey) bool { return !changed.concerns(k) })
}

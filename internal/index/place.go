package index

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/ephor-dev/ephor/internal/policy"
)

// placeKey is what rules are filed under.
type placeKey struct{ kind, resource string }

// maxPlaces bounds the places that are kept. A cluster has some hundred kinds; the bound is for requests with made-up ones,
// which the command line can be given. A full map is emptied.
const maxPlaces = 4096

// places are the places of the requests that came so far.
type places struct {
	mu  sync.Mutex // guards the making of places
	all atomic.Pointer[map[placeKey]*place]
}

// place holds the entries for one kind and resource, and the views made of them so far.
type place struct {
	entries [][]entry

	mu    sync.Mutex // guards the making of views
	views atomic.Pointer[map[viewKey]*view]
}

// place is that of the request.
func (x *Index) place(r *policy.Request) *place {
	key := placeKey{r.GVK.Kind, r.GVR.Resource}
	if all := x.places.all.Load(); all != nil {
		if p := (*all)[key]; p != nil {
			return p
		}
	}
	x.places.mu.Lock()
	defer x.places.mu.Unlock()
	all := map[placeKey]*place{}
	if old := x.places.all.Load(); old != nil {
		if p := (*old)[key]; p != nil {
			return p
		}
		if len(*old) < maxPlaces {
			all = maps.Clone(*old)
		}
	}
	p := &place{entries: x.filed(key)}
	all[key] = p
	x.places.all.Store(&all)
	return p
}

// filed are the entries that may be for a kind and a resource. Where a request does not say its resource, those for each
// resource are.
func (x *Index) filed(key placeKey) [][]entry {
	out := [][]entry{x.kinds[key.kind]}
	if key.resource != "" {
		out = append(out, x.resources[key.resource])
	} else {
		for _, list := range x.resources {
			out = append(out, list)
		}
	}
	return append(out, x.wild)
}

// keep takes over the places of old that a change is not about.
func (p *places) keep(old *places, changed *touched) {
	all := old.all.Load()
	if all == nil || changed.wild {
		return
	}
	kept := make(map[placeKey]*place, len(*all))
	for key, place := range *all {
		if !changed.concerns(key) {
			kept[key] = place
		}
	}
	p.all.Store(&kept)
}

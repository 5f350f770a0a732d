package discovery

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"github.com/ephor-dev/ephor/internal/policy"
)

// Discovery is the list of served resources, fetched on demand. It is safe for concurrent use. A caller never waits for a fetch if the
// list already has the answer.
type Discovery struct {
	client  clientdiscovery.ServerResourcesInterface
	now     func() time.Time
	current atomic.Pointer[listing]
	changed atomic.Pointer[time.Time] // when Invalidate was last called; nil for never
	mu      sync.Mutex                // serializes fetches
}

// listing is one list from the API server.
type listing struct {
	all     List
	bodies  map[string][]string // kind of a subresource's body → Kind/sub
	partial error               // some groups could not be listed
	fetched time.Time
}

// A list is fetched again if it is older than maxAge, or if something is missing in it and it is older than minAge. For a while after
// Invalidate, a kind may be missing because the API server lists it only some time after it is established.
const (
	maxAge      = 10 * time.Minute
	minAge      = 5 * time.Second
	settling    = 3 * time.Second
	settlingAge = 200 * time.Millisecond
)

// New returns a Discovery without a list; the first call fetches it.
func New(client clientdiscovery.ServerResourcesInterface, now func() time.Time) *Discovery {
	return &Discovery{client: client, now: now}
}

// Find implements Resources.
func (d *Discovery) Find(t policy.Target) ([]Resource, error) { return d.search(selects(&t)) }

// Settling reports whether more kinds may be served soon, because Invalidate was called some seconds ago.
func (d *Discovery) Settling() bool {
	changed := d.changed.Load()
	return changed != nil && d.now().Sub(*changed) < settling
}

// Invalidate makes the next call fetch the list again. Call it when new kinds may be served.
func (d *Discovery) Invalidate() {
	now := d.now()
	d.changed.Store(&now)
	if l := d.current.Load(); l != nil {
		old := *l
		old.fetched = time.Time{}
		d.current.CompareAndSwap(l, &old)
	}
}

// KindFor returns the kind of a main resource; an error when the API server does not serve it.
func (d *Discovery) KindFor(gvr schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	found, err := d.search(func(r *Resource) bool {
		return r.Subresource == "" && r.Resource == gvr.Resource && r.Version == gvr.Version && r.Group == gvr.Group
	})
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	if len(found) == 0 {
		return schema.GroupVersionKind{}, fmt.Errorf("the API server serves no %s of %s", gvr.Resource, gvr.GroupVersion())
	}
	return schema.GroupVersionKind{Group: gvr.Group, Version: gvr.Version, Kind: found[0].Kind}, nil
}

// BodyOf returns the subresources, as Kind/sub, whose requests hold objects of the kind, such as Deployment/scale for Scale.
func (d *Discovery) BodyOf(kind string) []string {
	if l := d.current.Load(); l != nil {
		return l.bodies[kind]
	}
	return nil
}

func (d *Discovery) search(want func(*Resource) bool) ([]Resource, error) {
	now := d.now()
	l := d.current.Load()
	if l == nil || now.Sub(l.fetched) > maxAge {
		fresh, err := d.fetch(l)
		switch {
		case err == nil:
			l = fresh
		case l == nil:
			return nil, err // an old list is better than none
		}
	}
	found := l.all.filter(want)
	oldest := minAge
	if d.Settling() {
		oldest = settlingAge
	}
	if len(found) == 0 && now.Sub(l.fetched) > oldest {
		var err error
		if l, err = d.fetch(l); err != nil {
			return nil, err
		}
		found = l.all.filter(want)
	}
	if len(found) == 0 && l.partial != nil {
		return nil, l.partial
	}
	return found, nil
}

// fetch replaces the listing that lacked the answer, unless another goroutine has already replaced it. A group that cannot be listed (a
// broken aggregated API) does not affect the others.
func (d *Discovery) fetch(old *listing) (*listing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.current.Load(); l != old {
		return l, nil
	}
	groups, lists, err := d.client.ServerGroupsAndResources()
	var failed *clientdiscovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("list the served resources: %w", err)
	}
	all := listOf(groups, lists)
	bodies := map[string][]string{}
	for _, r := range all {
		if text := r.Kind + "/" + r.Subresource; r.Subresource != "" && r.Body.Kind != r.Kind && !slices.Contains(bodies[r.Body.Kind], text) {
			bodies[r.Body.Kind] = append(bodies[r.Body.Kind], text)
		}
	}
	next := &listing{all: all, bodies: bodies, fetched: d.now()}
	if failed != nil {
		next.partial = failed
		if old != nil {
			// Resources of a group stay valid if its listing fails: a policy must not lose its rules because an aggregated API is
			// temporarily unavailable.
			next.all = append(next.all, old.all.filter(func(r *Resource) bool {
				_, down := failed.Groups[schema.GroupVersion{Group: r.Group, Version: r.Version}]
				return down
			})...)
		}
	}
	d.current.Store(next)
	return next, nil
}

// Fetch fetches the current list from the API server. A group that cannot be listed does not affect the others.
func Fetch(client clientdiscovery.ServerResourcesInterface) (List, error) {
	d := New(client, time.Now)
	l, err := d.fetch(nil)
	if err != nil {
		return nil, err
	}
	return l.all, nil
}

package webhookconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/ephor-dev/ephor/internal/wildcard"
)

// Resource is one resource or subresource that the API server serves.
type Resource struct {
	Group, Version, Resource, Subresource string
	// Kind is the kind of the main resource, also for subresources.
	Kind       string
	Namespaced bool
}

// Resources finds what a kind selector means on the API server.
type Resources interface {
	// Find returns the resources whose four parts match the selector's wildcards; an empty sub means only main
	// resources. No resources and no error means that the API server serves no such kind. An error that wraps
	// *discovery.ErrGroupDiscoveryFailed concerns this selector only; any other means that nothing could be listed.
	Find(group, version, kind, sub string) ([]Resource, error)
}

// Discovery is the list of served resources, fetched on demand. It is safe for all goroutines; who finds an answer in the
// list never waits for one who is fetching it.
type Discovery struct {
	client  discovery.ServerResourcesInterface
	now     func() time.Time
	current atomic.Pointer[listing]
	changed atomic.Pointer[time.Time] // when Invalidate was last called; nil for never
	mu      sync.Mutex                // one fetch at a time
}

// listing is one answer of the API server.
type listing struct {
	all     []Resource
	bodies  map[string][]string // kinds of the bodies of subresources → Kind/sub
	partial error               // some groups could not be listed
	fetched time.Time
}

// A list is fetched again when it is older than maxAge, or when something is missing in it and it is older than minAge.
// While it settles it may be missing because the API server lists a kind only some time after it is established.
const (
	maxAge      = 10 * time.Minute
	minAge      = 5 * time.Second
	settling    = 3 * time.Second
	settlingAge = 200 * time.Millisecond
)

// NewDiscovery returns a Discovery that has fetched nothing yet.
func NewDiscovery(client discovery.ServerResourcesInterface, now func() time.Time) *Discovery {
	return &Discovery{client: client, now: now}
}

// Find implements Resources.
func (d *Discovery) Find(group, version, kind, sub string) ([]Resource, error) {
	return d.search(func(r Resource) bool {
		return wildcard.Match(kind, r.Kind) && wildcard.Match(group, r.Group) && wildcard.Match(version, r.Version) &&
			(sub == "" && r.Subresource == "" || sub != "" && r.Subresource != "" && wildcard.Match(sub, r.Subresource))
	})
}

// Settling reports whether kinds may come to be served in a moment: Invalidate was called some seconds ago.
func (d *Discovery) Settling() bool {
	changed := d.changed.Load()
	return changed != nil && d.now().Sub(*changed) < settling
}

// Invalidate makes the next question fetch the list anew. It is called when something may be served that was not before.
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
	found, err := d.search(func(r Resource) bool {
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

// BodyOf returns the subresources, as Kind/sub, that are written with objects of the kind, as Deployment/scale is with a
// Scale.
func (d *Discovery) BodyOf(kind string) []string {
	if l := d.current.Load(); l != nil {
		return l.bodies[kind]
	}
	return nil
}

func (d *Discovery) search(want func(Resource) bool) ([]Resource, error) {
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
	found := filter(l.all, want)
	oldest := minAge
	if d.Settling() {
		oldest = settlingAge
	}
	if len(found) == 0 && now.Sub(l.fetched) > oldest {
		var err error
		if l, err = d.fetch(l); err != nil {
			return nil, err
		}
		found = filter(l.all, want)
	}
	if len(found) == 0 && l.partial != nil {
		return nil, l.partial
	}
	return found, nil
}

func filter(all []Resource, want func(Resource) bool) []Resource {
	var out []Resource
	for _, r := range all {
		if want(r) {
			out = append(out, r)
		}
	}
	return out
}

// fetch replaces the listing that the caller found wanting, unless another goroutine has replaced it meanwhile. A group that
// cannot be listed (a broken aggregated API) does not hide the others.
func (d *Discovery) fetch(old *listing) (*listing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.current.Load(); l != old {
		return l, nil
	}
	_, lists, err := d.client.ServerGroupsAndResources()
	var failed *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &failed) {
		return nil, fmt.Errorf("list the served resources: %w", err)
	}
	var all []Resource
	bodies := map[string][]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		kinds := map[string]string{}
		for i := range list.APIResources {
			if r := &list.APIResources[i]; !strings.Contains(r.Name, "/") {
				kinds[r.Name] = r.Kind
			}
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			name, sub, _ := strings.Cut(r.Name, "/")
			kind := kinds[name]
			if kind == "" {
				continue // a subresource without a main resource has no kind that a policy could name
			}
			all = append(all, Resource{
				Group: gv.Group, Version: gv.Version, Resource: name, Subresource: sub, Kind: kind, Namespaced: r.Namespaced,
			})
			if text := kind + "/" + sub; sub != "" && r.Kind != kind && !slices.Contains(bodies[r.Kind], text) {
				bodies[r.Kind] = append(bodies[r.Kind], text)
			}
		}
	}
	next := &listing{all: all, bodies: bodies, fetched: d.now()}
	if failed != nil {
		next.partial = failed
		if old != nil {
			// What a group served before its listing failed is still believed: a policy must not lose its rules because
			// an aggregated API is down for a while.
			next.all = append(next.all, filter(old.all, func(r Resource) bool {
				_, down := failed.Groups[schema.GroupVersion{Group: r.Group, Version: r.Version}]
				return down
			})...)
		}
	}
	d.current.Store(next)
	return next, nil
}

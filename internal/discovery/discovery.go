package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/wildcard"
)

// Discovery is the list of served resources, fetched on demand. It is safe for concurrent use. A caller never waits for a fetch if the
// list already has the answer; callers that wait share one fetch.
type Discovery struct {
	client  clientdiscovery.ServerResourcesInterface
	now     func() time.Time
	current atomic.Pointer[listing]
	changed atomic.Pointer[time.Time] // when Invalidate was last called; nil for never
	news    atomic.Pointer[func()]    // of OnChange

	mu     sync.Mutex // of what follows, and of replacing the current listing
	flight *flight    // the last fetch
	failed time.Time  // when the last fetch failed
}

// listing is one list from the API server.
type listing struct {
	all     List
	bodies  map[string][]string                      // kind of a subresource's body → Kind/sub
	partial *clientdiscovery.ErrGroupDiscoveryFailed // the groups that could not be listed; nil for none
	unknown map[string]bool                          // groups that could not be listed, and have no resources from an earlier list
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
func (d *Discovery) Find(t policy.Target) ([]Resource, error) {
	return d.FindWithin(context.Background(), t)
}

// FindWithin is Find for callers that do not wait longer than ctx.
func (d *Discovery) FindWithin(ctx context.Context, t policy.Target) ([]Resource, error) {
	exact := !strings.ContainsAny(t.Group+t.Version+t.Kind+t.Resource+t.Subresource, "*?")
	return d.search(ctx, exact, t.Group, selects(&t))
}

// Settling reports whether more kinds may be served soon, because Invalidate was called some seconds ago.
func (d *Discovery) Settling() bool {
	changed := d.changed.Load()
	return changed != nil && d.now().Sub(*changed) < settling
}

// Unknown reports whether the API server may serve a group that could not be listed yet.
func (d *Discovery) Unknown(group string) bool {
	l := d.current.Load()
	return l == nil || l.unknown[group]
}

// Unlisted returns an error if a wildcard may select kinds of a group that could not be listed yet: what Find returns for it is not complete.
func (d *Discovery) Unlisted(t policy.Target) error {
	l := d.current.Load()
	if l == nil || !t.Wild() {
		return nil
	}
	for group := range l.unknown {
		if wildcard.Match(t.Group, group) {
			return l.partial
		}
	}
	return nil
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

// OnChange sets the function that is called after a fetched list differs from the one before. It must not block.
func (d *Discovery) OnChange(f func()) { d.news.Store(&f) }

// incompletePause is the pause before a list that lacks some groups is fetched again.
const incompletePause = 30 * time.Second

// Refresh fetches the list again if it may lack resources: it was not fetched since Invalidate, or without some groups, or is old. Nothing
// announces the kinds of an aggregated API server. It returns when to call it again. Without a list there is nothing to refresh, since the next
// call fetches it.
func (d *Discovery) Refresh(ctx context.Context) (again time.Duration, err error) {
	l := d.current.Load()
	if l == nil {
		return maxAge, nil
	}
	if !l.complete() || d.now().Sub(l.fetched) >= maxAge {
		if l, err = d.fetch(l).wait(ctx); err != nil {
			return 0, err
		}
	}
	if !l.complete() {
		return incompletePause, nil
	}
	return max(l.fetched.Add(maxAge).Sub(d.now()), time.Second), nil
}

func (l *listing) complete() bool { return l.partial == nil && !l.fetched.IsZero() }

// KindFor returns the kind of a main resource; an error when the API server does not serve it.
func (d *Discovery) KindFor(ctx context.Context, gvr schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	found, err := d.search(ctx, true, gvr.Group, func(r *Resource) bool {
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

// search returns the resources that want selects. An exact search has its answer once it has found something, so that it waits only for a list
// that lacks the answer; another one also waits for a list that may have more than an old one. group is that of the resources, and may have
// wildcards.
func (d *Discovery) search(ctx context.Context, exact bool, group string, want func(*Resource) bool) ([]Resource, error) {
	l := d.current.Load()
	if l == nil {
		var err error
		if l, err = d.fetch(nil).wait(ctx); err != nil {
			return nil, err
		}
	}
	found := l.all.filter(want)
	if d.now().Sub(l.fetched) > maxAge {
		next := d.fetch(l)
		if exact && len(found) > 0 {
			return found, nil
		}
		if fresh, err := next.wait(ctx); err == nil { // an old list is better than none
			l = fresh
			found = l.all.filter(want)
		}
	}
	if len(found) == 0 && d.now().Sub(l.fetched) > d.patience() {
		var err error
		if l, err = d.fetch(l).wait(ctx); err != nil {
			return nil, err
		}
		found = l.all.filter(want)
	}
	if len(found) == 0 && l.partial != nil {
		for failed := range l.partial.Groups {
			if wildcard.Match(group, failed.Group) {
				return nil, l.partial
			}
		}
	}
	return found, nil
}

// patience is the minimum time between two fetches.
func (d *Discovery) patience() time.Duration {
	if d.Settling() {
		return settlingAge
	}
	return minAge
}

// flight is a fetch that all callers share, with its result once done is closed.
type flight struct {
	done chan struct{}
	list *listing
	err  error
}

func (f *flight) wait(ctx context.Context) (*listing, error) {
	select {
	case <-f.done:
		return f.list, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("list the served resources: %w", context.Cause(ctx))
	}
}

var ended = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// fetch begins to replace a listing, unless another caller has replaced it or does so now. After a failure it does not try again for a while:
// a discovery that times out holds each fetch for half a minute.
func (d *Discovery) fetch(old *listing) *flight {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.current.Load(); l != old {
		return &flight{done: ended, list: l}
	}
	if f := d.flight; f != nil {
		select {
		case <-f.done:
			if f.err != nil && d.now().Sub(d.failed) < d.patience() {
				return f
			}
		default:
			return f
		}
	}
	f := &flight{done: make(chan struct{})}
	d.flight = f
	go func() {
		defer close(f.done)
		f.list, f.err = d.replace(old)
	}()
	return f
}

// replace fetches a listing and stores it. A change that is announced meanwhile may not be in it, so it counts as old at once.
func (d *Discovery) replace(old *listing) (*listing, error) {
	before := d.changed.Load()
	next, err := list(d.client, old)
	if next, err = d.store(next, err, before); err != nil {
		return nil, err
	}
	if news := d.news.Load(); news != nil && old != nil && !slices.Equal(old.all, next.all) {
		(*news)()
	}
	return next, nil
}

// store stores a fetched listing, or when a fetch failed.
func (d *Discovery) store(next *listing, failed error, before *time.Time) (*listing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if failed != nil {
		d.failed = d.now()
		return nil, failed
	}
	if d.changed.Load() == before {
		next.fetched = d.now()
	}
	d.current.Store(next)
	return next, nil
}

// list fetches a listing. A group that cannot be listed (a broken aggregated API) does not affect the others.
func list(client clientdiscovery.ServerResourcesInterface, old *listing) (*listing, error) {
	groups, lists, err := client.ServerGroupsAndResources()
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
	next := &listing{all: all, bodies: bodies}
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
		next.unknown = map[string]bool{}
		for gv := range failed.Groups {
			if !slices.ContainsFunc(next.all, func(r Resource) bool { return r.Group == gv.Group && r.Version == gv.Version }) {
				next.unknown[gv.Group] = true
			}
		}
	}
	return next, nil
}

package ttl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"

	"ephor.invalid/ephor/internal/cleanup"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/ring"
	"ephor.invalid/ephor/internal/schedule"
)

// Observer counts deletions and rounds. Its methods are safe for concurrent use.
type Observer interface {
	// TTLDeleted counts a deleted object, TTLFailed an object that could not be deleted.
	TTLDeleted(r schema.GroupVersionResource, namespace string)
	TTLFailed(r schema.GroupVersionResource, namespace string)
	// TTLStopped counts a round that deleted nothing because it exceeded the limit.
	TTLStopped(r schema.GroupVersionResource)
	// Reconciled counts each object whose time was over as a round of a controller of its resource; Requeued counts those that could not be
	// deleted.
	Reconciled(controller string)
	Requeued(controller string, failures int)
}

// Options of a Manager.
type Options struct {
	Discovery discovery.ServerResourcesInterface
	Metadata  metadata.Interface
	// Allowed reports whether the process may use the verb on all objects of the resource.
	Allowed func(ctx context.Context, verb string, r schema.GroupVersionResource) (bool, error)
	// Every is the interval at which served resources and rights are checked again.
	Every time.Duration
	// MaxDeletions stops a round that would delete more objects of one resource; 0 for no limit. With a limit there is one round every
	// Every; without one, objects are deleted as soon as their time is over.
	MaxDeletions int
	// Share selects the objects that this process deletes; nil for all.
	Share cleanup.Share
	// Namespace is where the process runs; events about limits are about it.
	Namespace string
	Events    event.Recorder
	Observer  Observer
	Log       *slog.Logger
	Now       func() time.Time
}

// Name is the manager's name in metrics.
const Name = "ttl-controller-manager"

// Manager watches resources.
type Manager struct {
	Options
	sources controller.Group[schema.GroupVersionResource]

	mu       sync.Mutex
	watchers map[schema.GroupVersionResource]*watcher
}

// New returns a Manager that watches nothing yet.
func New(o Options) *Manager {
	if o.Share == nil {
		o.Share = ring.Alone{}
	}
	return &Manager{Options: o, watchers: map[schema.GroupVersionResource]*watcher{}}
}

// workers is the number of resources whose objects are deleted at the same time.
const workers = 8

// Rows returns the rows of the Manager: one decides which resources are watched, and one deletes the objects of each resource.
func (m *Manager) Rows() []controller.Row {
	var owner controller.Owner
	if m.MaxDeletions == 0 { // with a limit, only the interval starts rounds
		owner = controller.Inside(m.Share)
	}
	return []controller.Row{
		{Name: Name, Reconcile: func(ctx context.Context, _ string) (time.Duration, error) { return m.Every, m.adjust(ctx) }},
		{Name: "ttl", Owner: owner, Workers: workers, Sources: []controller.Source{&m.sources}, Keys: m.keys, Reconcile: m.Reconcile},
	}
}

// Reconcile deletes the objects of a watched resource whose time is over, and returns when to check again.
func (m *Manager) Reconcile(ctx context.Context, resource string) (time.Duration, error) {
	m.mu.Lock()
	var w *watcher
	for r, x := range m.watchers {
		if r.String() == resource {
			w = x
		}
	}
	m.mu.Unlock()
	if w == nil || !w.listed.Load() {
		return 0, nil // the end of its list is the next change
	}
	next := w.round(ctx)
	if m.MaxDeletions == 0 {
		next = min(next, m.Every) // the wall clock may change meanwhile
	}
	return next, nil
}

// keys are the watched resources.
func (m *Manager) keys(yield func(string) bool) {
	for _, r := range m.Watched() {
		if !yield(r.String()) {
			return
		}
	}
}

// Watched returns the resources that are watched, in order.
func (m *Manager) Watched() []schema.GroupVersionResource {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Keys(m.watchers), func(a, b schema.GroupVersionResource) int { return strings.Compare(a.String(), b.String()) })
}

// adjust starts and stops watches so that they match the served and permitted resources. It keeps watches whose resource could not be
// checked.
func (m *Manager) adjust(ctx context.Context) error {
	served, unknown, err := m.served()
	if err != nil {
		return fmt.Errorf("discover the resources with TTL labels: %w", err)
	}
	wanted := map[schema.GroupVersionResource]bool{}
	var failed error
	for _, r := range served {
		allowed, err := m.allowed(ctx, r)
		if err != nil {
			failed = errors.Join(failed, err)
			unknown[r.GroupVersion()] = true
			continue
		}
		wanted[r] = allowed && m.watchable(ctx, r)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	sources := map[schema.GroupVersionResource]controller.Source{}
	for r, w := range m.watchers {
		if !wanted[r] && !unknown[r.GroupVersion()] {
			delete(m.watchers, r)
			m.Log.Info("TTL labels are no longer watched", "resource", r.String())
			continue
		}
		sources[r] = w.source()
	}
	for r, want := range wanted {
		if want && m.watchers[r] == nil {
			m.watchers[r] = newWatcher(m, r)
			sources[r] = m.watchers[r].source()
			m.Log.Info("TTL labels are watched", "resource", r.String())
		}
	}
	m.sources.Set(sources)
	return failed
}

// served returns the resources with the three verbs, each in its preferred version, and the groups whose discovery failed.
func (m *Manager) served() ([]schema.GroupVersionResource, map[schema.GroupVersion]bool, error) {
	unknown := map[schema.GroupVersion]bool{}
	lists, err := m.Discovery.ServerPreferredResources()
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); errors.As(err, &failed) {
		for gv := range failed.Groups {
			unknown[gv] = true // a broken aggregated API does not hide the others
		}
	} else if err != nil {
		return nil, nil, err
	}
	var out []schema.GroupVersionResource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for i := range list.APIResources {
			r := &list.APIResources[i]
			verbs := []string(r.Verbs)
			if !strings.Contains(r.Name, "/") && slices.Contains(verbs, "list") && slices.Contains(verbs, "watch") && slices.Contains(verbs, "delete") {
				out = append(out, gv.WithResource(r.Name))
			}
		}
	}
	return out, unknown, nil
}

// allowed reports whether the process has the rights to watch and delete objects of the resource.
func (m *Manager) allowed(ctx context.Context, r schema.GroupVersionResource) (bool, error) {
	for _, verb := range []string{"delete", "watch", "list"} { // the rarest first: one check settles most resources
		if ok, err := m.Allowed(ctx, verb, r); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// watchable reports whether a resource is watched, or its objects can be listed, whatever the permissions say.
func (m *Manager) watchable(ctx context.Context, r schema.GroupVersionResource) bool {
	m.mu.Lock()
	watched := m.watchers[r] != nil
	m.mu.Unlock()
	if watched {
		return true
	}
	if _, err := m.Metadata.Resource(r).List(ctx, metav1.ListOptions{LabelSelector: schedule.TTLLabel, Limit: 1}); err != nil {
		m.Log.Debug("TTL labels are not watched", "resource", r.String(), "error", err)
		return false
	}
	return true
}

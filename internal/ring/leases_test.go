package ring

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// store is the part of an API server that tests of times need, with the test's clock: Leases with resource versions and UIDs. The tests in
// e2e/background and soak use a real API server.
type store struct {
	mu      sync.Mutex
	version int
	leases  map[string]*coordinationv1.Lease
}

func newStore() *store { return &store{leases: map[string]*coordinationv1.Lease{}} }

var leasesResource = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}

func (s *store) put(l *coordinationv1.Lease) *coordinationv1.Lease {
	s.version++
	l = l.DeepCopy()
	l.ResourceVersion = strconv.Itoa(s.version)
	if l.UID == "" {
		l.UID = types.UID("uid-" + l.ResourceVersion)
	}
	s.leases[l.Name] = l
	return l.DeepCopy()
}

// edit changes a Lease as a person would.
func (s *store) edit(t *testing.T, name string, change func(*coordinationv1.Lease)) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leases[name]
	if l == nil {
		t.Fatalf("there is no Lease %s, only %v", name, slices.Collect(maps.Keys(s.leases)))
	}
	change(l)
	s.put(l)
}

func (s *store) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.leases))
}

// link is a member's connection to the store. It fails while cut is set, and delays its requests. While slow is set, it never answers what it
// has written.
type link struct {
	*store
	mu    sync.Mutex
	cut   bool
	slow  bool
	delay time.Duration
	lists atomic.Int64
}

// answers waits for the answer to a write that was carried out.
func (l *link) answers(ctx context.Context) error {
	l.mu.Lock()
	slow := l.slow
	l.mu.Unlock()
	if slow {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (l *link) set(cut bool, delay time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.delay = cut, delay
}

var errCut = errors.New("the API server cannot be reached")

func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	cut, delay := l.cut, l.delay
	l.mu.Unlock()
	if delay > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(delay):
		}
	}
	if cut {
		return errCut
	}
	return ctx.Err()
}

func (l *link) Create(ctx context.Context, o *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	if err := l.pass(ctx); err != nil {
		return &coordinationv1.Lease{}, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.leases[o.Name] != nil {
		return &coordinationv1.Lease{}, apierrors.NewAlreadyExists(leasesResource, o.Name)
	}
	return l.put(o), nil
}

func (l *link) Update(ctx context.Context, o *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if err := l.pass(ctx); err != nil {
		return &coordinationv1.Lease{}, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	switch there := l.leases[o.Name]; {
	case there == nil:
		return &coordinationv1.Lease{}, apierrors.NewNotFound(leasesResource, o.Name)
	case there.ResourceVersion != o.ResourceVersion:
		return &coordinationv1.Lease{}, apierrors.NewConflict(leasesResource, o.Name, nil)
	}
	made := l.put(o)
	return made, l.answers(ctx)
}

func (l *link) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	there := l.leases[name]
	if there == nil {
		return apierrors.NewNotFound(leasesResource, name)
	}
	if p := o.Preconditions; p == nil || *p.UID != there.UID || *p.ResourceVersion != there.ResourceVersion {
		return apierrors.NewConflict(leasesResource, name, nil)
	}
	delete(l.leases, name)
	return nil
}

func (l *link) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	l.lists.Add(1)
	if err := l.pass(ctx); err != nil {
		return &coordinationv1.LeaseList{}, err
	}
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	list := &coordinationv1.LeaseList{}
	for _, name := range slices.Sorted(maps.Keys(l.leases)) {
		if lease := l.leases[name]; Label+"="+lease.Labels[Label] == o.LabelSelector {
			list.Items = append(list.Items, *lease.DeepCopy())
		}
	}
	return list, nil
}

// member is a Ring that runs in a test.
type member struct {
	*Ring
	link *link
	stop func() // ends it normally
}

// join starts a member. Times are those of the synctest bubble.
func (s *store) join(t *testing.T, pod string) *member {
	l := &link{store: s}
	r := New(Options{
		Leases: l, Namespace: "kyverno", Controller: "background", Identity: pod, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	m := &member{Ring: r, link: l, stop: func() { cancel(); <-done }}
	t.Cleanup(m.stop)
	synctest.Wait()
	return m
}

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// keys are the keys of all tests.
var keys = func() []string {
	var out []string
	for i := range 100 {
		out = append(out, "policy/"+strconv.Itoa(i))
	}
	return out
}()

// count returns how many of the keys a member holds.
func (m *member) count() int {
	n := 0
	for _, k := range keys {
		if m.Owns(k) {
			n++
		}
	}
	return n
}

// shared fails unless each key is held by exactly one of the members, and each member holds some.
func shared(t *testing.T, all ...*member) {
	t.Helper()
	exclusive(t, all...)
	sum := 0
	for _, m := range all {
		n := m.count()
		sum += n
		if n == 0 || n == len(keys) && len(all) > 1 {
			t.Errorf("%s holds %d keys of %d", m.Identity, n, len(keys))
		}
	}
	if sum != len(keys) {
		t.Errorf("%d keys of %d are held", sum, len(keys))
	}
}

// exclusive fails when two hold a key.
func exclusive(t *testing.T, all ...*member) {
	t.Helper()
	for _, k := range keys {
		n := 0
		for _, m := range all {
			if m.Owns(k) {
				n++
			}
		}
		if n > 1 {
			t.Fatalf("%d members hold the key %s", n, k)
		}
	}
}

// cutList lists only some of its Leases.
type cutList struct{ *link }

func (c cutList) List(ctx context.Context, o metav1.ListOptions) (*coordinationv1.LeaseList, error) {
	list, err := c.link.List(ctx, o)
	list.Continue = "more"
	return list, err
}

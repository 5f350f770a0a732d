package controller_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"ephor.invalid/ephor/internal/controller"
)

func object(name, version string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, ResourceVersion: version}}
}

func page(version, next string, names ...string) *metav1.PartialObjectMetadataList {
	l := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: next}}
	for _, n := range names {
		l.Items = append(l.Items, object(n, version))
	}
	return l
}

// script is a resource with scripted answers. A list returns the next page or error; a watch sends its events and ends, and the last one
// stays open.
type script struct {
	mu      sync.Mutex
	lists   []any
	watches [][]watch.Event
	asked   []string
}

func (s *script) ListWithContext(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, "list "+o.LabelSelector+" "+o.Continue)
	next := s.lists[0]
	s.lists = s.lists[1:]
	if err, bad := next.(error); bad {
		return nil, err
	}
	return next.(*metav1.PartialObjectMetadataList), nil
}

func (s *script) WatchWithContext(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, "watch "+o.LabelSelector+" "+o.ResourceVersion)
	if len(s.watches) == 0 {
		return watch.NewFake(), nil
	}
	events := s.watches[0]
	s.watches = s.watches[1:]
	w := watch.NewFakeWithChanSize(len(events), false)
	for _, e := range events {
		w.Action(e.Type, e.Object)
	}
	w.Stop()
	return w, nil
}

func event(kind watch.EventType, name, version string) watch.Event {
	o := object(name, version)
	return watch.Event{Type: kind, Object: &o}
}

// meta is the type of the objects.
type meta = *metav1.PartialObjectMetadata

// A reflector follows a resource through pages, a watch that ends, a bookmark, an expired version and a failure.
func TestReflector(t *testing.T) { synctest.Test(t, testReflector) }

func testReflector(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old").Status()
	s := &script{
		lists: []any{
			apierrors.NewForbidden(metav1.SchemeGroupVersion.WithResource("things").GroupResource(), "", errors.New("no right")),
			page("5", "more", "a", "b"), page("6", "", "c"),
			page("20", "", "c"),
		},
		watches: [][]watch.Event{
			{event(watch.Added, "d", "7"), event(watch.Deleted, "a", "8")},
			{event(watch.Bookmark, "", "12"), event(watch.Modified, "b", "13")},
			{{Type: watch.Error, Object: &expired}},
		},
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	var seen, keys []string
	r := &controller.Reflector[meta]{
		From: s, Options: metav1.ListOptions{LabelSelector: "k=v"}, Key: func(m meta) string { return m.Name },
		Sink: controller.Sink[meta]{
			Begin: func() { seen = append(seen, "begin") },
			Seen:  func(m meta) error { seen = append(seen, "seen "+m.Name+" "+m.ResourceVersion); return nil },
			Gone:  func(m meta) { seen = append(seen, "gone "+m.Name+" "+m.ResourceVersion) },
			Listed: func(version string) error {
				seen = append(seen, "listed "+version)
				if version == "20" {
					stop()
				}
				return nil
			},
			Failed: func(err error, pause time.Duration) { seen = append(seen, "failed: "+err.Error()) },
		},
	}
	if err := r.Start(ctx, func(key string) { keys = append(keys, key) })(); err != nil {
		t.Error(err)
	}
	want := []string{
		"begin", `failed: list: things.meta.k8s.io is forbidden: no right`,
		"begin", "seen a 5", "seen b 5", "seen c 6", "listed 5",
		"seen d 7", "gone a 8", "seen b 13",
		"begin", "seen c 20", "listed 20",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("seen:\n%s\nwant:\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	if got := strings.Join(keys, ""); got != "abcdabc" {
		t.Errorf("keys %s", got)
	}
	asked := []string{"list k=v ", "list k=v ", "list k=v more", "watch k=v 5", "watch k=v 8", "watch k=v 13", "list k=v "}
	if !slices.Equal(s.asked, asked) {
		t.Errorf("asked:\n%s\nwant:\n%s", strings.Join(s.asked, "\n"), strings.Join(asked, "\n"))
	}
}

// Watches that end at once, whose version is always too old, or whose objects the sink refuses are opened rarely.
func TestWatchesThatEndAtOnce(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old").Status()
	for name, events := range map[string][]watch.Event{
		"end at once": {}, "too old": {{Type: watch.Error, Object: &expired}}, "refused": {event(watch.Added, "refused", "7")},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{}
			for range 1000 {
				s.lists, s.watches = append(s.lists, page("5", "", "a")), append(s.watches, events)
			}
			ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
			defer stop()
			(&controller.Reflector[meta]{From: s, Sink: controller.Sink[meta]{Seen: func(m meta) error {
				if m.Name == "refused" {
					return errors.New("refused")
				}
				return nil
			}}}).Run(ctx)
			if n := len(s.asked); n > 60 {
				t.Errorf("%s: %d lists and watches in 10 minutes", name, n)
			}
		})
	}
}

// A list whose token has expired goes on with the rest.
func TestListIsLongerThanItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := apierrors.NewResourceExpired("the token is too old")
		gone.ErrStatus.Continue = "rest"
		s := &script{lists: []any{page("5", "more", "a"), error(gone), page("9", "", "b")}}
		ctx, stop := context.WithCancel(t.Context())
		n := 0
		(&controller.Reflector[meta]{From: s, Sink: controller.Sink[meta]{
			Seen: func(meta) error { n++; return nil },
			Listed: func(version string) error {
				if n != 2 || version != "5" {
					t.Errorf("%d objects of version %s", n, version)
				}
				stop()
				return nil
			},
			Failed: func(err error, _ time.Duration) { t.Error(err) },
		}}).Run(ctx)
		if got := strings.Join(s.asked, ", "); got != "list  , list  more, list  rest" && !strings.HasPrefix(got, "list  , list  more, list  rest, ") {
			t.Errorf("asked %s", got)
		}
	})
}

// A server that failed listens at its address again.
func TestServe(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var served []string
	run := controller.Serve(listener, func(_ context.Context, l net.Listener) error {
		served = append(served, l.Addr().String())
		if len(served) == 2 {
			stop()
			return nil
		}
		return l.Close()
	}).Start(ctx, nil)
	for ctx.Err() == nil {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	if address := listener.Addr().String(); !slices.Equal(served, []string{address, address}) {
		t.Errorf("served at %q, want twice at %s", served, address)
	}
}

package ttl

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/schedule"
)

type counted struct {
	stopped, deleted, failed int
	rounds, again            []string
}

func (c *counted) TTLDeleted(schema.GroupVersionResource, string) { c.deleted++ }
func (c *counted) TTLFailed(schema.GroupVersionResource, string)  { c.failed++ }
func (c *counted) TTLStopped(schema.GroupVersionResource)         { c.stopped++ }
func (c *counted) Reconciled(controller string)                   { c.rounds = append(c.rounds, controller) }
func (c *counted) Requeued(controller string, _ int)              { c.again = append(c.again, controller) }

func watch(now *time.Time, limit int) (*watcher, *counted) {
	c := &counted{}
	m := New(Options{Every: time.Minute, MaxDeletions: limit, Events: event.Discard, Observer: c, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return *now }})
	return newWatcher(m, schema.GroupVersionResource{Version: "v1", Resource: "pods"}), c
}

func pod(name, uid, ttl string, created time.Time, change ...func(*metav1.PartialObjectMetadata)) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, UID: types.UID(uid), ResourceVersion: "1", CreationTimestamp: metav1.NewTime(created), Labels: map[string]string{schedule.TTLLabel: ttl},
	}}
	for _, f := range change {
		f(o)
	}
	return o
}

// The due items, and the time until the next one is due.
func TestPending(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	created := now.Add(-time.Hour)
	w, _ := watch(&now, 0)
	going := func(o *metav1.PartialObjectMetadata) { d := metav1.NewTime(now); o.DeletionTimestamp = &d }
	for _, o := range []*metav1.PartialObjectMetadata{
		pod("over", "1", "30m", created), pod("now", "2", "1h", created), pod("soon", "3", "1h10s", created), pod("later", "4", "2d", created),
		pod("mistaken", "5", "10ay", created), pod("going", "6", "1s", created, going), pod("past", "7", "2023-07-19", created),
	} {
		w.set(o)
	}
	list := func() string {
		due, next := w.pending(now)
		names := []string{}
		for _, name := range []string{"over", "now", "soon", "later", "mistaken", "going", "past"} {
			for _, i := range due {
				if i.object.Name == name {
					names = append(names, name)
				}
			}
		}
		return fmt.Sprint(strings.Join(names, " "), " ", next)
	}
	if got := list(); got != "over now past 10s" {
		t.Error(got)
	}
	// A failed attempt causes a pause. The same object keeps its pause after an event; another one with the same name has
	// none.
	w.items[types.NamespacedName{Namespace: "a", Name: "over"}].pause = now.Add(5 * time.Second)
	w.set(pod("over", "1", "30m", created))
	if got := list(); got != "now past 5s" {
		t.Error(got)
	}
	w.set(pod("over", "8", "30m", created))
	w.set(pod("now", "2", "3h", created))
	w.forget(pod("past", "7", "2023-07-19", created))
	if got := list(); got != "over 10s" {
		t.Error(got)
	}
	now = now.Add(3 * time.Hour)
	if got := list(); !strings.HasPrefix(got, "over now soon ") {
		t.Error(got)
	}
}

// A round that exceeds the limit deletes nothing: this test has no client that could.
func TestLimit(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	w, seen := watch(&now, 2)
	for i := range 3 {
		w.set(pod(fmt.Sprint("p", i), fmt.Sprint(i), "1s", now.Add(-time.Minute)))
	}
	if next := w.round(t.Context()); next != time.Minute || seen.stopped != 1 || len(w.items) != 3 {
		t.Errorf("next %v, stopped %d, %d items", next, seen.stopped, len(w.items))
	}
}

// Deletions and failures are counted, under the name of Kyverno's controller for the resource.
func TestCounted(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	w, seen := watch(&now, 0)
	api := fake.NewSimpleMetadataClient(fake.NewTestScheme())
	api.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.(clienttesting.DeleteAction).GetName() == "kept" {
			return true, nil, errors.New("no")
		}
		return true, nil, nil
	})
	w.Metadata = api
	for _, name := range []string{"gone", "kept"} {
		w.set(pod(name, name, "1s", now.Add(-time.Minute)))
	}
	if next := w.round(t.Context()); next != time.Minute || seen.deleted != 1 || seen.failed != 1 ||
		fmt.Sprint(seen.rounds) != "[v1/pods v1/pods]" || fmt.Sprint(seen.again) != "[v1/pods]" {
		t.Errorf("next %v, %+v", next, seen)
	}
	w.resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	if got := w.name(); got != "apps/v1/deployments" {
		t.Error(got)
	}
}

// Only the three known values of the annotation are accepted.
func TestPropagation(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	w, _ := watch(&now, 0)
	for value, want := range map[string]string{"Foreground": "Foreground", "Background": "Background", "Orphan": "Orphan", "orphan": "", "": ""} {
		i, err := w.read(pod("p", "1", "1s", now, func(o *metav1.PartialObjectMetadata) {
			o.Annotations = map[string]string{schedule.PropagationAnnotation: value}
		}))
		if err != nil || i.object.Propagation != want {
			t.Errorf("%q: %+v %v", value, i, err)
		}
	}
}

// A round waits for the first list, and objects that are missing in a later list are forgotten.
func TestLists(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	w, _ := watch(&now, 0)
	w.Manager.watchers[w.resource] = w
	sink := w.sink()
	list := func(names ...string) {
		sink.Begin()
		for _, name := range names {
			if err := sink.Seen(pod(name, name, "1h", now)); err != nil {
				t.Fatal(err)
			}
		}
	}
	next := func() time.Duration {
		d, err := w.Manager.Reconcile(t.Context(), w.resource.String())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	list("a", "b")
	if d := next(); d != 0 {
		t.Errorf("a round before the end of the list, again in %s", d)
	}
	_ = sink.Listed("1")
	if d := next(); d != time.Minute || len(w.items) != 2 {
		t.Errorf("again in %s, %d objects", d, len(w.items))
	}
	list("b")
	_ = sink.Listed("2")
	if sink.Seen(pod("c", "c", "1h", now)); len(w.items) != 2 {
		t.Errorf("%d objects after another list and a change", len(w.items))
	}
}

package execute

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// oneObject is a cluster with one object, of which only the version is known.
type oneObject struct {
	client.Reader
	version atomic.Pointer[string] // nil if the object is deleted
	began   chan struct{}          // if not nil, Get sends to it when it starts
	goOn    chan struct{}          // and then waits for this channel
}

func (o *oneObject) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if o.began != nil {
		o.began <- struct{}{}
		<-o.goOn
	}
	v := o.version.Load()
	if v == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "source")
	}
	into.(*metav1.PartialObjectMetadata).ResourceVersion = *v
	return nil
}

func (o *oneObject) set(version string) { o.version.Store(&version) }

// objectAt implements world.Objects: the object at some version.
type objectAt struct {
	version string
	reads   int
}

func (o *objectAt) Get(context.Context, world.ObjectRequest) (map[string]any, error) {
	o.reads++
	return map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"resourceVersion": o.version}}, nil
}

var source = policy.Source{APIVersion: "v1", Kind: "ConfigMap", Namespace: "default", Name: "source", UID: "u"}

// After a copy, the worker detects whether the source was changed or deleted since it was read. Copies of all rules share the read
// of an unchanged source.
func TestOutdatedSources(t *testing.T) {
	cluster, now := &oneObject{}, time.Unix(0, 0)
	cluster.set("1")
	at := &objectAt{version: "1"}
	w := NewWorker(WorkerOptions{
		Root: world.RootFunc(func(world.Reach) world.World { return world.World{Objects: at.Get} }),
		Now:  func() time.Time { return now },
	})
	w.Planner.sources.client = cluster
	copies := &policy.Rule{WorkPlan: policy.WorkPlan{Outputs: []policy.Output{{Copy: true}}}}
	read := func(r *policy.Rule) *sourceReads {
		t.Helper()
		reads := w.Planner.sourceReads(&task{rule: r})
		if _, err := reads.For(world.Cluster()).Objects.Get(t.Context(), "v1", "ConfigMap", "default", "source"); err != nil {
			t.Fatal(err)
		}
		return reads
	}
	check := func(reads *sourceReads, want bool) {
		t.Helper()
		if changed, err := reads.outdated(t.Context(), []policy.Source{source}); err != nil || changed != want {
			t.Errorf("changed: %v, %v, want %v", changed, err, want)
		}
	}
	check(read(copies), false)
	check(read(copies), false)
	if at.reads != 1 {
		t.Errorf("%d reads, want one for two copies", at.reads)
	}
	read(&policy.Rule{WorkPlan: policy.WorkPlan{Outputs: []policy.Output{{}}}})
	if at.reads != 2 {
		t.Error("a rule that does not only copy reads an old version")
	}
	if reads := w.Planner.sourceReads(&task{rule: copies}); true {
		_, _ = reads.For(world.InNamespace("team")).Objects.Get(t.Context(), "v1", "ConfigMap", "default", "source")
		if at.reads != 3 {
			t.Error("a cluster-wide read is handed to a namespace")
		}
	}

	cluster.set("2")
	check(read(copies), true) // the cached version was read
	at.version = "2"
	check(read(copies), false) // and it is no longer cached
	reads := read(copies)
	reads.written(source, "2", "3") // we labelled the source
	cluster.set("3")
	check(reads, false)

	// A worker that handles a change reads the source once. It reads the source again for the next change.
	follower := w.Planner.sourceReads(&task{rule: copies, follows: object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"source","resourceVersion":"7"}}`)})
	got, err := follower.For(world.Cluster()).Objects.Get(t.Context(), "v1", "ConfigMap", "default", "source")
	if err != nil || follower.content == nil || value.JSON(got) != value.JSON(follower.content) {
		t.Errorf("the followed source is %v, %v", got, err)
	}
	check(follower, false)

	cluster.version.Store(nil)
	_, err = read(copies).outdated(t.Context(), []policy.Source{source})
	if gone := (sourceGoneError{}); !errors.As(err, &gone) || gone.source != source {
		t.Errorf("deleted: %v", err)
	}
}

// A check of a source is shared by the callers that arrive before it starts, and not by later ones. They wait for it in virtual time, so none
// of them waits for a mutex, and no longer than their contexts allow.
func TestSharedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &oneObject{began: make(chan struct{}), goOn: make(chan struct{})}
		cluster.set("1")
		s := newSources(cluster, time.Now)
		versions := make(chan string)
		look := func() {
			version, err := s.version(t.Context(), source)
			if err != nil {
				t.Error(err)
			}
			versions <- version
		}
		go look()
		<-cluster.began // the check is in progress
		for range 3 {
			go look()
		}
		synctest.Wait() // they wait for the next check
		ended, end := context.WithCancelCause(t.Context())
		end(errors.New("the caller ends"))
		if _, err := s.version(ended, source); err == nil || err.Error() != "the caller ends" {
			t.Errorf("a caller that ends waits for a shared check: %v", err)
		}
		cluster.goOn <- struct{}{}
		if v := <-versions; v != "1" {
			t.Errorf("the first version is %q", v)
		}
		<-cluster.began
		cluster.set("2")
		cluster.goOn <- struct{}{}
		for range 3 { // a check for each of them would wait for cluster.began
			if v := <-versions; v != "2" {
				t.Errorf("the later version is %q", v)
			}
		}
		if len(s.looks) != 0 {
			t.Errorf("%d checks are left", len(s.looks))
		}
	})
}

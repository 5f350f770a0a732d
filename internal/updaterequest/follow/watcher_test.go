package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/controller"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// sink is the sink of a watched resource.
type sink struct {
	controller.Sink[*metav1.PartialObjectMetadata]
}

func object(uid, version string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), ResourceVersion: version}}
}

func (s sink) seen(uid, version string) { _ = s.Seen(object(uid, version)) }

func (s sink) gone(uid string) { s.Gone(object(uid, "")) }

// sinks are the sinks of the watched resources, by name.
type sinks map[string]sink

// of makes a Watcher watch what the test reports.
func (h sinks) of(w *Watcher) *Watcher {
	w.Watch = func(gvr schema.GroupVersionResource, x controller.Sink[*metav1.PartialObjectMetadata]) controller.Source {
		h[gvr.Resource] = sink{x}
		return controller.Forever(func(context.Context) {})
	}
	return w
}

// list reports a list of objects, each in version 1, and what happens meanwhile.
func (h sinks) list(resource string, during func(), uids ...string) {
	h[resource].Begin()
	for _, uid := range uids {
		h[resource].seen(uid, "1")
	}
	during()
	_ = h[resource].Listed("")
}

func nothing() {}

// rounds calls Once until it has nothing more to do soon.
func rounds(t *testing.T, ctx context.Context, w *Watcher) {
	t.Helper()
	for {
		next, err := w.Once(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if next == 0 || next > sameAgain {
			return
		}
		time.Sleep(next)
	}
}

// A change of a generated object or of its source creates work. Our own writes, and changes of objects that are not in the record, do not.
func TestWatched(t *testing.T) { synctest.Test(t, testWatched) }

func testWatched(t *testing.T) {
	const kind = "GeneratingPolicy"
	rule := func(name string, g policy.Generation) *policy.Program {
		return &policy.Program{Kind: kind, Name: name, UID: name, Rules: []*policy.Rule{{Name: name, Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{Generation: &g}}}}
	}
	snapshot := catalog.NewStatic([]*policy.Program{
		rule("sync", policy.Generation{Synchronize: true, Watched: true}), rule("once", policy.Generation{Watched: true}),
	})
	scheme := runtime.NewScheme()
	if err := kyvernov2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "Secret"}, meta.RESTScopeNamespace)
	wake := make(chan struct{}, 100)
	fire := func() { wake <- struct{}{} }
	record := origin.New(origin.Options{Log: slog.New(slog.DiscardHandler)})
	follower := &Follower{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).Build(), Namespace: "ephor", Made: &origin.Objects{Record: record},
		Snapshot: func() *catalog.Snapshot { return snapshot }, Events: event.Discard, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	note := func(policyName, trigger, uid, source string) {
		e := origin.Entry{
			Claim:  mark.Claim{Kind: kind, Policy: policyName, Rule: policyName, Trigger: mark.Object{APIVersion: "v1", Kind: "Namespace", Name: trigger, UID: trigger}, Source: source},
			Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "o-" + uid, UID: uid}, Version: "1",
		}
		if source != "" {
			e.From, e.FromVersion = mark.Object{APIVersion: "v1", Kind: "Secret", Namespace: "n", Name: "o-" + source, UID: source}, "1"
		}
		record.Add(e)
	}
	note("sync", "edited", "a", "")
	note("sync", "same", "b", "")
	note("sync", "deleted", "c", "")
	note("sync", "listed-no-more", "d", "")
	note("once", "of-no-synchronizing-rule", "e", "")
	note("sync", "copy", "f", "s")
	note("sync", "copy-of-gone", "g", "s2")
	note("sync", "written-by-us", "h", "")

	watched := sinks{}
	w := watched.of(&Watcher{Follower: follower, Wake: fire, Log: slog.New(slog.DiscardHandler)})
	ctx := t.Context()
	rounds(t, ctx, w)
	maps, secrets := watched["configmaps"], watched["secrets"]
	watched.list("configmaps", nothing, "a", "b", "c", "e", "f", "g", "h", "foreign")
	watched.list("secrets", nothing, "s", "s2")
	maps.seen("a", "2")
	maps.seen("b", "1")
	maps.gone("c")
	maps.seen("e", "2")
	maps.seen("foreign", "2")
	maps.seen("h", "2")
	secrets.seen("s", "2")
	secrets.gone("s2")
	note("sync", "written-by-us", "h", "") // the version of the write is recorded after the watch has reported it
	e, _ := record.Object("h")
	e.Version = "2"
	record.Add(e)

	var got []string
	for late := time.After(time.Minute); len(got) < 5; {
		select {
		case <-wake:
		case <-late:
			t.Fatalf("after a minute the work is\n%s", strings.Join(got, "\n"))
		}
		rounds(t, ctx, w)
		list := &kyvernov2.UpdateRequestList{}
		if err := follower.Client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		got = nil
		for i := range list.Items {
			u := &list.Items[i]
			_, source := u.Labels[updaterequest.LabelSource]
			for _, r := range updaterequest.Rules(&u.Spec) {
				got = append(got, fmt.Sprintf("%s %s %s source:%v gone:%v", u.Spec.RequestType, r.Rule, r.Trigger.Name, source, r.DeleteDownstream))
			}
		}
	}
	slices.Sort(got)
	want := []string{
		"cel-generate sync deleted source:false gone:false",
		"cel-generate sync edited source:false gone:false",
		"cel-generate sync listed-no-more source:false gone:false",
		"cel-generate sync o-s source:true gone:false",
		"cel-generate sync o-s2 source:true gone:true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the work is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if _, known := record.Object("c"); known {
		t.Error("the record knows an object that is gone")
	}
}

// watcherOf returns a Watcher of the ConfigMaps of a policy, and the function that records an object for it.
func watcherOf(t *testing.T, s *site) (w *Watcher, watched sinks, note func(trigger, uid, version string)) {
	t.Helper()
	s.add("sync")
	generation := *s.policies["sync"].Rules[0].Generation
	generation.Watched = true
	s.policies["sync"].Rules[0].Generation = &generation
	f := s.follower()
	wake := make(chan struct{}, 100)
	watched = sinks{}
	w = watched.of(&Watcher{Follower: f, Wake: func() { wake <- struct{}{} }, Log: slog.New(slog.DiscardHandler)})
	return w, watched, func(trigger, uid, version string) {
		s.record.Add(origin.Entry{
			Claim:  mark.Claim{Policy: "sync", Rule: "sync", Trigger: mark.Object{APIVersion: "v1", Kind: "Namespace", Name: trigger, UID: trigger}},
			Object: mark.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "o-" + uid, UID: uid}, Version: version,
		})
	}
}

// An object that is generated and recorded during a list is not in the list, and does not count as deleted.
func TestRecordedDuringAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, interceptor.Funcs{})
		w, watched, note := watcherOf(t, s)
		note("kept", "old", "1")
		note("deleted", "gone", "1")
		rounds(t, t.Context(), w)
		watched.list("configmaps", func() { note("new", "new", "2") }, "old")
		rounds(t, t.Context(), w)
		if got, want := s.requests(t), []string{" deleted"}; !slices.Equal(got, want) {
			t.Errorf("the work is for %q, want %q", got, want)
		}
		for uid, want := range map[string]bool{"old": true, "new": true, "gone": false} {
			if _, known := s.record.Object(uid); known != want {
				t.Errorf("%s is recorded: %v", uid, known)
			}
		}
	})
}

// A change of an object that another replica generated leads to work, although the record of that replica arrives after the change.
func TestChangedBeforeItIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, interceptor.Funcs{})
		w, watched, note := watcherOf(t, s)
		note("other", "other", "1")
		rounds(t, t.Context(), w)
		watched.list("configmaps", nothing, "other")
		maps := watched["configmaps"]
		maps.seen("changed", "1")
		maps.seen("changed", "2")
		maps.seen("same", "1")
		maps.seen("deleted", "1")
		maps.gone("deleted")
		maps.seen("foreign", "1")
		rounds(t, t.Context(), w)
		time.Sleep(2 * time.Second)
		for _, uid := range []string{"changed", "same", "deleted"} {
			note("of "+uid, uid, "1")
		}
		rounds(t, t.Context(), w)
		if got, want := strings.Join(s.requests(t), ""), " of changed of deleted"; got != want && got != " of deleted of changed" {
			t.Errorf("the work is for %q, want %q", got, want)
		}
		time.Sleep(2 * earlyFor)
		rounds(t, t.Context(), w)
		if len(w.early) > 0 {
			t.Errorf("%d objects are remembered", len(w.early))
		}
	})
}

// What a watch reports between two lists takes no memory.
func TestWatchThatLasts(t *testing.T) {
	w, _, note := watcherOf(t, newSite(t, interceptor.Funcs{}))
	w.pending = map[change]pending{}
	x := &watched{gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	w.begin(x)
	w.listed(x)
	for i := range 100 {
		uid := fmt.Sprint(i)
		note("t", uid, "1")
		w.see(x, uid, "1")
	}
	if len(x.seen) > 0 {
		t.Errorf("%d objects are kept", len(x.seen))
	}
}

// A change of an object leads to work, although another object of the same trigger was written by us at the same time. A deleted object
// stays in the record until its work is written.
func TestChangesOfOneTrigger(t *testing.T) {
	var refusal error
	s := newSite(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*kyvernov2.UpdateRequest); ok && refusal != nil {
			return refusal
		}
		return c.Create(ctx, o, opts...)
	}})
	w, _, note := watcherOf(t, s)
	note("t", "edited", "1")
	note("t", "ours", "1")
	note("t", "deleted", "1")
	w.pending, w.last = map[change]pending{}, map[change]time.Time{}
	x := &watched{seen: map[string]bool{}}
	w.see(x, "edited", "2")
	w.lose("deleted")
	w.see(x, "ours", "2")
	note("t", "ours", "2") // the version of our write is recorded after the watch has reported it
	refusal = errors.New("etcd has no leader")
	if _, err := w.flush(t.Context()); err == nil {
		t.Error("the work is not written, and there is no error")
	}
	if _, known := s.record.Object("deleted"); !known {
		t.Error("the work is not written, and the record does not have the deleted object any more")
	}
	refusal = nil
	now := time.Now().Add(2 * sameAgain)
	w.Follower.Now = func() time.Time { return now }
	if _, err := w.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := s.requests(t), []string{" t"}; !slices.Equal(got, want) {
		t.Errorf("the work is for %q, want %q", got, want)
	}
	if _, known := s.record.Object("deleted"); known {
		t.Error("the record has the deleted object")
	}
}

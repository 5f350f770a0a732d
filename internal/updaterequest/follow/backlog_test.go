package follow

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
)

// backlog has the last reported number of rules that wait, and the number of events about them.
type backlog struct{ waiting, events int }

func (*backlog) UpdateRequests(int)                      {}
func (b *backlog) RulesWaiting(_ context.Context, n int) { b.waiting = n }

func (b *backlog) Record(e event.Event) {
	if strings.Contains(e.Note, "its work is delayed") {
		b.events++
	}
}

// crowd fills the namespace of UpdateRequests, and returns the function that empties it.
func crowd(t *testing.T, s *site, f *Follower) (empty func()) {
	t.Helper()
	f.Threshold = func() int { return 1 }
	if err := s.client.Create(t.Context(), &kyvernov2.UpdateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ephor", Name: "other"}}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := s.client.DeleteAllOf(t.Context(), &kyvernov2.UpdateRequest{}, client.InNamespace("ephor")); err != nil {
			t.Fatal(err)
		}
	}
}

// The work for a change waits while the threshold is reached. This is reported once, and its end is reported, too: when the work is written, or
// when its policy is deleted.
func TestReportedBacklogOfChanges(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, b := newSite(t, interceptor.Funcs{}), &backlog{}
			w, watched, note := watcherOf(t, s)
			w.Follower.Events, w.Follower.Observer = b, b
			empty := crowd(t, s, w.Follower)
			note("t", "edited", "1")
			once := func() {
				time.Sleep(2 * sameAgain)
				if _, err := w.Once(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			once()
			watched["configmaps"].seen("edited", "2")
			for range 3 {
				once()
			}
			if b.waiting != 1 || b.events != 1 {
				t.Errorf("%d UpdateRequests wait, want 1, and there are %d events, want 1", b.waiting, b.events)
			}
			if deleted {
				s.remove("sync")
			} else {
				empty()
			}
			once()
			if b.waiting != 0 {
				t.Errorf("policy deleted: %v: %d UpdateRequests are said to wait", deleted, b.waiting)
			}
		})
	}
}

// A round that waits is no backlog any more when its policy is deleted, or changes so that it has no triggers.
func TestReportedBacklogOfARound(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, b := newSite(t, interceptor.Funcs{}), &backlog{}
			f := s.follower()
			f.Events, f.Observer, f.Rules = b, b, inNamespace{}
			f.Made.Find = func(policy.Target) ([]schema.GroupVersionKind, error) {
				return []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}, nil
			}
			if err := s.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "t", UID: "t"}}); err != nil {
				t.Fatal(err)
			}
			crowd(t, s, f)
			p := policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{
				Name: "a", Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Existing: true}}, Matching: policy.Matching{Targets: []policy.Target{{Version: "v1", Kind: "ConfigMap"}}},
			}}}
			s.catalog.Set(&p)
			once(t, f)
			once(t, f)
			if b.waiting != 1 || b.events != 1 {
				t.Errorf("%d UpdateRequests wait, want 1, and there are %d events, want 1", b.waiting, b.events)
			}
			if deleted {
				s.remove("p")
			} else {
				changed := p
				changed.Generation = 2
				f.Rules = noRules{}
				s.catalog.Set(&changed)
			}
			once(t, f)
			if b.waiting != 0 {
				t.Errorf("policy deleted: %v: %d UpdateRequests are said to wait", deleted, b.waiting)
			}
		})
	}
}

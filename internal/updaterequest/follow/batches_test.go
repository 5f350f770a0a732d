package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// requests returns the triggers of each UpdateRequest, sorted, with the ones that failed marked.
func (s *site) requests(t *testing.T) (out []string) {
	t.Helper()
	list := &kyvernov2.UpdateRequestList{}
	if err := s.client.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		text := string(list.Items[i].Status.State)
		for _, r := range updaterequest.Rules(&list.Items[i].Spec) {
			text += " " + r.Trigger.Name
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// Each trigger of a round gets work, also if an UpdateRequest of an earlier round still exists: because it waits, or because it failed.
func TestBatchesOfTwoRounds(t *testing.T) {
	for name, c := range map[string]struct {
		state          kyvernov2.UpdateRequestState
		second, result []string
	}{
		"the same, waiting":  {"", []string{"a", "b"}, []string{" a b"}},
		"a new one, waiting": {kyvernov2.Pending, []string{"new", "a", "b"}, []string{" new", "Pending a b"}},
		"others, waiting":    {"", []string{"c"}, []string{" a b", " c"}},
		"the same, failed":   {kyvernov2.Failed, []string{"a", "b"}, []string{" a b"}},
		"a new one, failed":  {kyvernov2.Failed, []string{"new", "b"}, []string{" new b"}},
		"executed":           {kyvernov2.Completed, []string{"a", "new"}, []string{" new", "Completed a b"}},
	} {
		s := newSite(t, interceptor.Funcs{})
		s.add("p")
		f := s.follower()
		round := func(names ...string) {
			t.Helper()
			b := &batches{f: f, program: s.policies["p"], rule: s.policies["p"].Rules[0], why: existing}
			for _, name := range names {
				if err := b.add(t.Context(), kyvernov2.ResourceSpec{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: name}, ""); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.flush(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		round("a", "b")
		list := &kyvernov2.UpdateRequestList{}
		if err := s.client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
			t.Fatal(err, len(list.Items))
		}
		list.Items[0].Status.State = c.state
		if err := s.client.Update(t.Context(), &list.Items[0]); err != nil {
			t.Fatal(err)
		}
		round(c.second...)
		round(c.second...) // nothing is written twice
		if got := s.requests(t); !slices.Equal(got, c.result) {
			t.Errorf("%s: %q, want %q", name, got, c.result)
		}
	}
}

// inNamespace applies rules to the objects of the namespace n.
type inNamespace struct{ noRules }

func (inNamespace) Applies(_ context.Context, _ *policy.Program, _ *policy.Rule, u *unstructured.Unstructured) bool {
	return u.GetNamespace() == "n"
}

// A round that fails goes on where it failed: no trigger gets work twice, although the work of the first ones is done meanwhile.
func TestRoundThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := map[string]error{}
		work := map[string]int{} // the UpdateRequests for each trigger
		s := newSite(t, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				kind := l.GetObjectKind().GroupVersionKind().Kind
				if _, metadata := l.(*metav1.PartialObjectMetadataList); metadata {
					kind += " metadata"
				}
				if err := failures[kind]; err != nil {
					return err
				}
				return c.List(ctx, l, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				u, ok := o.(*kyvernov2.UpdateRequest)
				if !ok {
					return c.Create(ctx, o, opts...)
				}
				if err := failures["UpdateRequest"]; err != nil {
					return err
				}
				for _, r := range updaterequest.Rules(&u.Spec) {
					work[r.Rule+" "+r.Trigger.Name]++ // and it is executed at once
				}
				return nil
			},
		})
		const n = 2*updaterequest.Batch + 50
		for i := range n {
			if err := s.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("t", i), UID: types.UID(fmt.Sprint("t", i))}}); err != nil {
				t.Fatal(err)
			}
		}
		rule := func(name string, g policy.Generation) *policy.Rule {
			return &policy.Rule{
				Name: name, Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{
					Generation: &g,
					Grants:     []policy.Grant{{APIVersion: "v1", Kind: "Secret", Name: "*"}},
				}, Matching: policy.Matching{Targets: []policy.Target{{Version: "v1", Kind: "ConfigMap"}}},
			}
		}
		s.catalog.Set(&policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{
			rule("a", policy.Generation{Existing: true}), rule("b", policy.Generation{Existing: true, Synchronize: true}),
		}})
		f := s.follower()
		f.Made.Find = func(policy.Target) ([]schema.GroupVersionKind, error) {
			return []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}, nil
		}
		f.Rules = inNamespace{}
		counts := func(when string, want int) {
			t.Helper()
			if got := len(work); got != want {
				t.Errorf("%s: %d triggers have work, want %d", when, got, want)
			}
			for name, times := range work {
				if times != 1 {
					t.Fatalf("%s: %s has work %d times", when, name, times)
				}
			}
		}
		fail := func(kind string) {
			t.Helper()
			clear(failures)
			failures[kind] = errors.New("the API server is away")
			if _, err := f.Once(t.Context()); err == nil {
				t.Errorf("%s cannot be read or written, and the round does not fail", kind)
			}
		}
		fail("ConfigMapList")
		counts("no list", 0)
		fail("UpdateRequest")
		counts("no write", 0)
		fail("SecretList metadata")
		counts("objects of the second rule", 2*n)
		clear(failures)
		once(t, f)
		counts("all", 2*n)
		time.Sleep(f.Every)
		clear(work)
		once(t, f)
		counts("the next round", 2*n)
	})
}

// A kind that may not be listed, or not be looked up, keeps the triggers of other kinds from nothing. Attempts for it list only its objects.
func TestRoundWithAKindThatFails(t *testing.T) {
	lists := map[string]int{}
	s := newSite(t, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
		kind := l.GetObjectKind().GroupVersionKind().Kind
		if lists[kind]++; kind == "SecretList" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New("no right"))
		}
		return c.List(ctx, l, opts...)
	}})
	if err := s.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "there", UID: "u"}}); err != nil {
		t.Fatal(err)
	}
	targets := []policy.Target{{Version: "v1", Kind: "Unknown"}, {Version: "v1", Kind: "Secret"}, {Version: "v1", Kind: "ConfigMap"}}
	s.catalog.Set(&policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{
		Name: "r", Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Existing: true}}, Matching: policy.Matching{Targets: targets},
	}}})
	f := s.follower()
	f.Made.Find = func(at policy.Target) ([]schema.GroupVersionKind, error) {
		if at.Kind == "Unknown" {
			return nil, errors.New("an aggregated API does not answer")
		}
		return []schema.GroupVersionKind{{Version: "v1", Kind: at.Kind}}, nil
	}
	f.Rules = inNamespace{}
	for range 3 {
		if _, err := f.Once(t.Context()); err == nil || !strings.Contains(err.Error(), "no right") || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("the failures are not reported: %v", err)
		}
	}
	if got := s.requests(t); !slices.Equal(got, []string{" there"}) || lists["ConfigMapList"] != 1 || lists["SecretList"] != 3 {
		t.Errorf("work %q after lists %v", got, lists)
	}
}

// A round whose UpdateRequests reach the threshold waits without listing its triggers again, and meanwhile the objects of deleted rules are
// deleted. Each trigger gets work once.
func TestRoundThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, work := 0, map[string]int{}
		s := newSite(t, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if _, content := l.(*unstructured.UnstructuredList); content {
					lists++
				}
				return c.List(ctx, l, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if u, ok := o.(*kyvernov2.UpdateRequest); ok {
					for _, r := range updaterequest.Rules(&u.Spec) {
						work[r.Trigger.Name]++
					}
				}
				return c.Create(ctx, o, opts...)
			},
		})
		const n = 3*updaterequest.Batch + 1
		for i := range n {
			if err := s.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("t", i), UID: types.UID(fmt.Sprint("t", i))}}); err != nil {
				t.Fatal(err)
			}
		}
		f := s.follower()
		f.Threshold, f.Rules = func() int { return 2 }, inNamespace{}
		f.Made.Find = func(policy.Target) ([]schema.GroupVersionKind, error) {
			return []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}, nil
		}
		s.add("gone")
		once(t, f)
		s.catalog.Set(&policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{
			Name: "a", Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Existing: true}}, Matching: policy.Matching{Targets: []policy.Target{{Version: "v1", Kind: "ConfigMap"}}},
		}}})
		listed := lists
		if next := once(t, f); next != recountPause || len(work) != 2*updaterequest.Batch {
			t.Errorf("%d triggers have work, and the next round is in %s", len(work), next)
		}
		s.make(t, "gone", "made")
		s.remove("gone")
		if next := once(t, f); next != recountPause || s.exists(t, "made") {
			t.Errorf("the object of a deleted rule exists: %v, and the next round is in %s", s.exists(t, "made"), next)
		}
		if err := s.client.DeleteAllOf(t.Context(), &kyvernov2.UpdateRequest{}, client.InNamespace("ephor")); err != nil {
			t.Fatal(err)
		}
		once(t, f)
		for name, times := range work {
			if times != 1 {
				t.Errorf("%s has work %d times", name, times)
			}
		}
		if len(work) != n || lists != listed+1 {
			t.Errorf("%d triggers have work after %d lists", len(work), lists-listed)
		}
	})
}

// A kind that is served after its policy was handled is looked at as soon as it is: its first objects may be older than the webhooks that are
// about it.
func TestKindsThatAreServedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, interceptor.Funcs{})
		served, down := false, error(nil)
		f := s.follower()
		f.Made.Find = func(policy.Target) ([]schema.GroupVersionKind, error) {
			if !served {
				return nil, down
			}
			return []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}, nil
		}
		f.Rules, f.Every = inNamespace{}, time.Hour
		if err := s.client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "there", UID: "u"}}); err != nil {
			t.Fatal(err)
		}
		s.catalog.Set(&policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{
			Name: "r", Stage: policy.StageGenerate, WorkPlan: policy.WorkPlan{
				Generation: &policy.Generation{Existing: true},
				Grants:     []policy.Grant{{APIVersion: "v1", Kind: "Secret", Name: "*"}},
			}, Matching: policy.Matching{Targets: []policy.Target{{Version: "v1", Kind: "ConfigMap"}}},
		}}})
		for _, c := range []struct {
			served bool
			want   int
		}{{false, 0}, {true, 1}, {true, 0}, {false, 0}, {true, 1}} {
			served = c.served
			if _, err := f.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
			list := &kyvernov2.UpdateRequestList{}
			if err := s.client.List(t.Context(), list); err != nil || len(list.Items) != c.want {
				t.Errorf("served: %v: %d UpdateRequests, want %d, %v", c.served, len(list.Items), c.want, err)
			}
			if err := s.client.DeleteAllOf(t.Context(), &kyvernov2.UpdateRequest{}, client.InNamespace("ephor")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		served, down = false, errors.New("discovery does not answer")
		if next, err := f.Once(t.Context()); err != nil || next > retryKinds {
			t.Errorf("the kinds are looked up again after %s, %v", next, err)
		}
	})
}

// A trigger that is created or changed after the existing triggers were listed, and before the webhooks are about its kind, has its work; the
// others are not worked on again.
func TestTriggersOlderThanTheWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, interceptor.Funcs{})
		f := s.follower()
		f.Made.Find = func(policy.Target) ([]schema.GroupVersionKind, error) {
			return []schema.GroupVersionKind{{Version: "v1", Kind: "ConfigMap"}}, nil
		}
		f.Rules, f.Every = inNamespace{}, time.Hour
		trigger := func(name, value string) {
			t.Helper()
			o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: types.UID(name)}, Data: map[string]string{"v": value}}
			err := s.client.Create(t.Context(), o)
			if apierrors.IsAlreadyExists(err) {
				o.ResourceVersion = ""
				err = s.client.Update(t.Context(), o)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		rule := func(name string, w policy.WorkPlan) *policy.Rule {
			return &policy.Rule{Name: name, Stage: policy.StageGenerate, WorkPlan: w, Matching: policy.Matching{Targets: []policy.Target{{Version: "v1", Kind: "ConfigMap"}}}}
		}
		set := func(generation int64) {
			s.catalog.Set(&policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Generation: generation, Rules: []*policy.Rule{
				rule("g", policy.WorkPlan{Generation: &policy.Generation{Existing: true}}), rule("m", policy.WorkPlan{OnPolicyChange: true}),
			}})
		}
		set(1)
		for _, c := range []struct {
			after  time.Duration
			change func()
			want   string
			next   time.Duration
		}{
			{0, func() { trigger("old", "1"); trigger("other", "1") }, "g/old g/other m/old m/other", 15 * time.Second},
			{5 * time.Second, func() { trigger("gap", "1"); trigger("old", "2") }, "", 10 * time.Second},
			{10 * time.Second, func() {}, "g/gap g/old", 165 * time.Second},
			{165 * time.Second, func() { trigger("late", "1") }, "g/late", 57 * time.Minute},
			{10 * time.Minute, func() { trigger("asked", "1") }, "", 47 * time.Minute},
			{0, func() { set(2) }, "g/asked g/gap g/late g/old g/other m/asked m/gap m/late m/old m/other", 15 * time.Second},
			{47 * time.Minute, func() { trigger("gap", "2") }, "g/gap", 13 * time.Minute},
			{13 * time.Minute, func() {}, "g/asked g/gap g/late g/old g/other m/asked m/gap m/late m/old m/other", time.Hour}, // the hourly round
		} {
			time.Sleep(c.after)
			c.change()
			next, err := f.Once(t.Context())
			if err != nil || next != c.next {
				t.Errorf("%q: the next round is in %s, %v, want %s", c.want, next, err, c.next)
			}
			list := &kyvernov2.UpdateRequestList{}
			if err := s.client.List(t.Context(), list); err != nil {
				t.Fatal(err)
			}
			var work []string
			for _, u := range list.Items {
				for _, r := range updaterequest.Rules(&u.Spec) {
					work = append(work, r.Rule+"/"+r.Trigger.Name)
				}
			}
			slices.Sort(work)
			if got := strings.Join(work, " "); got != c.want {
				t.Errorf("work for %q, want %q", got, c.want)
			}
			if err := s.client.DeleteAllOf(t.Context(), &kyvernov2.UpdateRequest{}, client.InNamespace("ephor")); err != nil {
				t.Fatal(err)
			}
		}
	})
}

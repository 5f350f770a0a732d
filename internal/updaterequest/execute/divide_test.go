package execute

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

func triggerOf(uid, name string) kyvernov2.ResourceSpec {
	return kyvernov2.ResourceSpec{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: name, UID: types.UID(uid)}
}

// The rules of a policy for a trigger have the same key in every UpdateRequest. An UpdateRequest for several triggers has no key.
func TestKeyOfWork(t *testing.T) {
	rule := func(name string, trigger kyvernov2.ResourceSpec) kyvernov2.RuleContext {
		return kyvernov2.RuleContext{Rule: name, Trigger: trigger}
	}
	work := func(policy string, resource kyvernov2.ResourceSpec, rules ...kyvernov2.RuleContext) *kyvernov2.UpdateRequest {
		return &kyvernov2.UpdateRequest{Spec: kyvernov2.UpdateRequestSpec{Policy: policy, Resource: resource, RuleContext: rules}}
	}
	a, b := triggerOf("a", "x"), triggerOf("b", "y")
	want := updaterequest.Key("p", a)
	older := work("p", a)
	older.Spec.Rule = "r"
	for name, c := range map[string]struct {
		work *kyvernov2.UpdateRequest
		want string
	}{
		"one rule":                         {work("p", a, rule("r", a)), want},
		"two rules":                        {work("p", a, rule("r", a), rule("s", a)), want},
		"its trigger is its resource":      {work("p", a, rule("r", kyvernov2.ResourceSpec{})), want},
		"of the older form":                {older, want},
		"about another object":             {work("p", b, rule("r", a)), want},
		"known under another name":         {work("p", a, rule("r", triggerOf("a", "renamed"))), want},
		"two triggers":                     {work("p", a, rule("r", a), rule("r", b)), ""},
		"another policy":                   {work("q", a, rule("r", a)), updaterequest.Key("q", a)},
		"a trigger that has no UID":        {work("p", triggerOf("", "x"), rule("r", triggerOf("", "x"))), updaterequest.Key("p", triggerOf("", "x"))},
		"another trigger that has no UID":  {work("p", triggerOf("", "y"), rule("r", triggerOf("", "y"))), updaterequest.Key("p", triggerOf("", "y"))},
		"nothing":                          {work("p", a), ""},
		"a namespaced policy of that name": {work("n/p", a, rule("r", a)), updaterequest.Key("n/p", a)},
	} {
		if got := updaterequest.KeyOfRules(c.work); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if updaterequest.Key("p", triggerOf("", "x")) == updaterequest.Key("p", triggerOf("", "y")) || want == updaterequest.Key("q", a) || len(want) > 63 {
		t.Errorf("keys: %q", want)
	}
}

// Work without a request is marked as such: the worker decides again what to delete, and the label names its content.
func TestWorkWithoutRequest(t *testing.T) {
	a, b := triggerOf("a", "x"), triggerOf("b", "y")
	one := updaterequest.New("kyverno", "p", kyvernov2.Generate, "p", []kyvernov2.RuleContext{{Rule: "r", Trigger: a, DeleteDownstream: true, Synchronize: true}}, "1")
	two := updaterequest.New("kyverno", "p", kyvernov2.Mutate, "p", []kyvernov2.RuleContext{{Rule: "r", Trigger: a}, {Rule: "r", Trigger: b}}, "1")
	if r := one.Spec.RuleContext[0]; r.DeleteDownstream || !r.Synchronize || r.Trigger != a || updaterequest.Asked(one) || updaterequest.KeyOf(one) != updaterequest.Key("p", a) || one.Labels[updaterequest.LabelGeneratePolicy] != "p" {
		t.Errorf("%+v", one)
	}
	if updaterequest.KeyOf(two) != "" || two.Labels[updaterequest.LabelMutatePolicy] != "p" || len(two.Spec.RuleContext) != 2 || one.Name == two.Name {
		t.Errorf("%+v", two)
	}
}

// part is a share of some keys, whose time may have expired.
type part struct {
	Share
	keys   map[string]bool
	lapsed bool
}

func (p *part) Owns(key string) bool { return p.keys[key] }
func (p *part) Hold(ctx context.Context, key string) (context.Context, func(), bool) {
	return ctx, func() {}, p.keys[key]
}
func (p *part) Lapsed(context.Context) bool { return p.lapsed }

// Work of another replica is not started. Work that was in progress when the time expired does not count as done.
func TestHeld(t *testing.T) {
	p := &part{keys: map[string]bool{"ours": true}}
	w := NewWorker(WorkerOptions{Share: p})
	did := 0
	do := func(context.Context) error { did++; return nil }
	if err := w.held(t.Context(), "theirs", do); err != (elsewhereError{}) || did != 0 {
		t.Errorf("%v, done %d times", err, did)
	}
	if err := w.held(t.Context(), "ours", do); err != nil || did != 1 {
		t.Errorf("%v, done %d times", err, did)
	}
	p.lapsed = true
	if err := w.held(t.Context(), "ours", do); err != (elsewhereError{lapsed: true}) || did != 2 {
		t.Errorf("%v, done %d times", err, did)
	}
}

// Work that is passed on in several attempts, which differ in their triggers, gets an UpdateRequest for each of them.
func TestPassedOnWork(t *testing.T) {
	for name, pass := range map[string]func(*Worker, *kyvernov2.UpdateRequest, ...kyvernov2.ResourceSpec) error{
		"to other replicas": func(w *Worker, u *kyvernov2.UpdateRequest, triggers ...kyvernov2.ResourceSpec) error {
			return w.end.leave(t.Context(), &task{u: u, RuleContext: kyvernov2.RuleContext{Rule: "r"}}, triggers)
		},
		"after a lost share": func(w *Worker, u *kyvernov2.UpdateRequest, triggers ...kyvernov2.ResourceSpec) error {
			var lapsed []kyvernov2.RuleContext
			for _, x := range triggers {
				lapsed = append(lapsed, kyvernov2.RuleContext{Rule: "r", Trigger: x})
			}
			w.end.lookAgain(t.Context(), u, lapsed)
			return nil
		},
	} {
		w, _ := newMarked(t)
		stored := workOf(t, "r", triggerSpec("n", "x", "u"), "", "", nil)
		withRequest(t, w, interceptor.Funcs{}, stored, configMapOf("n", "a", "a", nil), configMapOf("n", "b", "b", nil), configMapOf("n", "c", "c", nil))
		executed := stored.DeepCopy()
		executed.Name = "ur-2"
		program := w.Snapshot().Programs()[0]
		updaterequest.Hold(executed, program, "r")
		for _, triggers := range [][]kyvernov2.ResourceSpec{{triggerOf("a", "a"), triggerOf("b", "b")}, {triggerOf("a", "a"), triggerOf("b", "b")}, {triggerOf("c", "c")}} {
			if err := pass(w, executed, triggers...); err != nil {
				t.Fatal(err)
			}
		}
		list := &kyvernov2.UpdateRequestList{}
		if err := w.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i := range list.Items {
			if u := &list.Items[i]; u.Name != stored.Name {
				if name == "after a lost share" && !updaterequest.Held(u, program, "r") {
					t.Errorf("%s: it is not known any more that the conditions held", name)
				}
				for _, r := range updaterequest.Rules(&u.Spec) {
					got = append(got, r.Trigger.Name)
				}
			}
		}
		slices.Sort(got)
		if want := []string{"a", "b", "c"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The rules that fail for some triggers of an UpdateRequest get one of their own, with their status. The others are executed by their
// replicas, and once.
func TestFailedPartIsSeparated(t *testing.T) {
	for name, shared := range map[string]bool{"one replica": false, "two replicas": true} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := newMarked(t)
			var objects []client.Object
			u := workOf(t, "anybody", triggerSpec("n", "bad", "bad"), "", "", nil)
			u.Spec.RuleContext = nil
			for _, name := range []string{"good", "bad", "theirs"} {
				if name != "theirs" || shared {
					objects = append(objects, configMapOf("n", name, name, triggers))
					u.Spec.RuleContext = append(u.Spec.RuleContext, kyvernov2.RuleContext{Rule: "anybody", Trigger: triggerSpec("n", name, name), Synchronize: true})
				}
			}
			withRequest(t, w, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetName() == "bad-made" {
					return errors.New("no right")
				}
				return c.Create(ctx, o, opts...)
			}}, u, objects...)
			theirs := updaterequest.Key("p", triggerSpec("n", "theirs", "theirs"))
			w.Share = &part{keys: map[string]bool{
				updaterequest.Key("p", triggerSpec("n", "good", "good")): true, updaterequest.Key("p", triggerSpec("n", "bad", "bad")): true, u.Name: true, theirs: !shared,
			}}
			requests := func() map[string]kyvernov2.UpdateRequestState {
				list := &kyvernov2.UpdateRequestList{}
				if err := w.Client.List(t.Context(), list); err != nil {
					t.Fatal(err)
				}
				out := map[string]kyvernov2.UpdateRequestState{}
				for _, x := range list.Items {
					for _, r := range updaterequest.Rules(&x.Spec) {
						out[r.Trigger.Name] = x.Status.State
					}
					run(t, w, x.Name, 3)
				}
				return out
			}
			requests()
			requests()
			want := map[string]kyvernov2.UpdateRequestState{"bad": kyvernov2.Pending}
			if shared {
				want["theirs"] = ""
			}
			if got := requests(); !maps.Equal(got, want) {
				t.Errorf("%s: UpdateRequests for %v, want %v", name, got, want)
			}
			for range 4 {
				requests()
			}
			w.Share = &part{keys: map[string]bool{theirs: true, u.Name: true}}
			requests()
			want = map[string]kyvernov2.UpdateRequestState{"bad": kyvernov2.Failed}
			if got := requests(); !maps.Equal(got, want) {
				t.Errorf("%s: in the end, UpdateRequests for %v, want %v", name, got, want)
			}
			if got := present(t, w); !slices.Contains(got, "n/good-made") || shared != slices.Contains(got, "n/theirs-made") {
				t.Errorf("%s: %q", name, got)
			}
		})
	}
}

// Targets that were changed before the failed part of an UpdateRequest was separated are not changed again.
func TestSeparatedTargetsAreChangedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := newMarked(t)
		u := workOf(t, "append", triggerSpec("n", "t1", "t1"), "", "", nil)
		u.Spec.RequestType = kyvernov2.Mutate
		u.Spec.RuleContext = append(u.Spec.RuleContext, kyvernov2.RuleContext{Rule: "append", Trigger: triggerSpec("n", "t2", "t2")})
		withRequest(t, w, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if o.GetName() == "bad" {
				return errors.New("no right")
			}
			return c.Update(ctx, o, opts...)
		}}, u, configMapOf("n", "t1", "t1", nil), configMapOf("n", "t2", "t2", nil), configMapOf("n", "good", "g", nil), configMapOf("n", "bad", "b", nil))
		program := &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{Name: "append", Stage: policy.StageMutateExisting}}}
		w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{program}) }
		both, nothing := appending(t, w, "good", "bad"), appending(t, w)
		w.Eval = func(ctx context.Context, in engine.Input) policy.Outcome {
			if in.Request.Name == "t1" {
				return both(ctx, in)
			}
			return nothing(ctx, in)
		}
		renew(w)
		for range 10 {
			list := &kyvernov2.UpdateRequestList{}
			if err := w.Client.List(t.Context(), list); err != nil || len(list.Items) != 1 {
				t.Fatalf("%d UpdateRequests, %v", len(list.Items), err)
			}
			run(t, w, list.Items[0].Name, 2)
			w.end.forget(list.Items[0].Name) // another replica goes on
		}
		live := &corev1.ConfigMap{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "good"}, live); err != nil || live.Data["log"] != "x" {
			t.Errorf("the target that works was changed to %q, %v", live.Data["log"], err)
		}
	})
}

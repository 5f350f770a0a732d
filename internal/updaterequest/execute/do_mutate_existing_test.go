package execute

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

func TestChangedIn(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":        {`{"replicas":1,"a":{"b":2}}`, `{"replicas":1,"a":{"b":2}}`, `null`},
		"one of several": {`{"replicas":1,"a":{"b":2}}`, `{"replicas":4,"a":{"b":2}}`, `{"replicas":4}`},
		"deeper":         {`{"a":{"b":2,"c":3}}`, `{"a":{"b":1,"c":3}}`, `{"a":{"b":1}}`},
		"new":            {`null`, `{"replicas":0}`, `{"replicas":0}`},
		"gone":           {`{"a":1,"b":2}`, `{"a":1}`, `null`},
		"a list":         {`{"a":[1,2]}`, `{"a":[2]}`, `{"a":[2]}`},
	} {
		decoded := func(s string) any {
			v, err := value.DecodeJSON([]byte(s))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if got := value.JSON(changedIn(decoded(c.before), decoded(c.after))); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// appending is the evaluation of a rule that appends x to the entry log of ConfigMaps, some of them more than once.
func appending(t *testing.T, w *Worker, names ...string) func(context.Context, engine.Input) policy.Outcome {
	return func(ctx context.Context, _ engine.Input) policy.Outcome {
		work := policy.Work{}
		for _, name := range names {
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			if err := w.Client.Get(ctx, client.ObjectKey{Namespace: "n", Name: name}, live); err != nil {
				t.Error(err)
			}
			log, _, _ := unstructured.NestedString(live.Object, "data", "log")
			after := live.DeepCopy()
			if err := unstructured.SetNestedField(after.Object, log+"x", "data", "log"); err != nil {
				t.Error(err)
			}
			work.Targets = append(work.Targets, policy.Mutated{Before: live.Object, After: after.Object, Status: policy.StatusPass})
		}
		return policy.Outcome{Work: []policy.Work{work}}
	}
}

// For one request, a rule changes each of its targets once, however often the writes to other targets have to be repeated. A new request
// changes all of them again.
func TestTargetsAreChangedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		trigger := configMapOf("n", "there", "u1", triggers)
		w, _ := newMarked(t, trigger)
		u := workOf(t, "append", triggerSpec("n", "there", "u1"), "CREATE", "u", trigger)
		u.Spec.RequestType = kyvernov2.Mutate
		u.Spec.RuleContext = append(u.Spec.RuleContext, u.Spec.RuleContext[0])
		u.Spec.RuleContext[1].Rule = "also"
		var refused error
		stored := withRequest(t, w, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if o.GetName() == "bad" && refused != nil {
				return refused
			}
			return c.Update(ctx, o, opts...)
		}}, u, trigger, configMapOf("n", "good", "g", nil), configMapOf("n", "bad", "b", nil), configMapOf("n", "twice", "t", nil))
		program := &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{
			{Name: "append", Stage: policy.StageMutateExisting}, {Name: "also", Stage: policy.StageMutateExisting},
		}}
		w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{program}) }
		first, second := appending(t, w, "good", "bad", "twice", "twice"), appending(t, w)
		w.Eval = func(ctx context.Context, in engine.Input) policy.Outcome {
			if in.Selections[0].Rules[0].Name == "append" {
				return first(ctx, in)
			}
			return second(ctx, in)
		}
		renew(w)
		logs := func() (out []string) {
			for _, name := range []string{"good", "bad", "twice"} {
				live := &corev1.ConfigMap{}
				if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: name}, live); err != nil {
					t.Fatal(err)
				}
				out = append(out, live.Data["log"])
			}
			return out
		}
		refused = newer(trigger)
		run(t, w, u.Name, 3)
		refused = errors.New("no right")
		run(t, w, u.Name, 5)
		w.end.forget(u.Name) // another replica goes on
		run(t, w, u.Name, 2)
		w.end.forget(u.Name)
		run(t, w, u.Name, 2)
		if got, want := logs(), []string{"x", "", "xx"}; !slices.Equal(got, want) {
			t.Errorf("while a target fails: %q, want %q", got, want)
		}
		live := &corev1.ConfigMap{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(trigger), live); err != nil {
			t.Fatal(err)
		}
		live.Data = map[string]string{"changed": "yes"}
		if err := w.Client.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		again, _ := stored()
		again.Generation++ // another request
		if err := w.Client.Update(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		run(t, w, u.Name, 5)
		refused = nil
		run(t, w, u.Name, 5)
		if got, want := logs(), []string{"xx", "x", "xxxx"}; !slices.Equal(got, want) {
			t.Errorf("after another request: %q, want %q", got, want)
		}
		if _, left := stored(); left {
			t.Error("the UpdateRequest is left")
		}
	})
}

// A write that was made, and whose answer was lost, is not made again.
func TestTargetWhoseWriteIsNotAnswered(t *testing.T) {
	for name, lost := range map[string]error{
		"a broken connection": errors.New("connection reset by peer"),
		"a server error":      apierrors.NewInternalError(errors.New("etcd has no leader")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				trigger := configMapOf("n", "there", "u1", triggers)
				w, _ := newMarked(t, trigger)
				u := workOf(t, "append", triggerSpec("n", "there", "u1"), "CREATE", "u", trigger)
				u.Spec.RequestType = kyvernov2.Mutate
				writes := 0
				withRequest(t, w, interceptor.Funcs{Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
					err := c.Update(ctx, o, opts...)
					if o.GetName() == "target" && err == nil {
						if writes++; writes == 1 {
							err = lost
						}
					}
					return err
				}}, u, trigger, configMapOf("n", "target", "g", nil))
				program := &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{Name: "append", Stage: policy.StageMutateExisting}}}
				w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{program}) }
				w.Eval = appending(t, w, "target")
				renew(w)
				run(t, w, u.Name, 5)
				live := &corev1.ConfigMap{}
				if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "target"}, live); err != nil {
					t.Fatal(err)
				}
				if live.Data["log"] != "x" {
					t.Errorf("one request appended %q", live.Data["log"])
				}
			})
		})
	}
}

package execute

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/seal"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// An object that is being deleted does not count as generated: the work waits until it is gone, fails if that takes long, and generates it
// again.
func TestObjectsThatAreBeingDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		generation policy.Generation
		operation  admissionv1.Operation
		foreign    bool // the rule did not generate the object
	}{
		"created":            {policy.Generation{Synchronize: true}, "CREATE", false},
		"updated":            {policy.Generation{Synchronize: true}, "UPDATE", false},
		"not synchronized":   {policy.Generation{}, "UPDATE", false},
		"applied":            {policy.Generation{Synchronize: true, ServerSideApply: true}, "CREATE", false},
		"own":                {policy.Generation{Synchronize: true, Own: true}, "CREATE", false},
		"own, applied":       {policy.Generation{Synchronize: true, Own: true, ServerSideApply: true}, "CREATE", false},
		"of another, own":    {policy.Generation{Synchronize: true, Own: true}, "CREATE", true},
		"of another, shared": {policy.Generation{Synchronize: true}, "CREATE", true},
	} {
		trigger := triggerSpec("n", "there", "u1")
		old := configMapOf("n", "there-made", "d", nil)
		if !c.foreign {
			old.Labels = claiming("anybody", "n", "u1")
			markedAs(t, old, "anybody", trigger, false)
		}
		old.Data = map[string]string{"k": "v"}
		old.Finalizers = []string{"example.com/slow"}
		at := metav1.NewTime(time.Now().Add(-time.Minute))
		old.DeletionTimestamp = &at
		w, events := newMarked(t, configMapOf("n", "there", "u1", triggers), old)
		program := *w.Snapshot().Programs()[0]
		rule := *program.Rules[0]
		rule.Generation, program.Rules = &c.generation, []*policy.Rule{&rule}
		w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{&program}) }
		work := func(waited time.Duration) error {
			u := workOf(t, "anybody", trigger, c.operation, "u", configMapOf("n", "there", "u1", triggers))
			return w.one(t.Context(), &task{u: u, RuleContext: updaterequest.Rules(&u.Spec)[0], reads: w.read.reads([]kyvernov2.ResourceSpec{trigger}), waited: waited})
		}
		if err := work(0); !errors.As(err, &notYetError{}) || len(events.all) > 0 {
			t.Errorf("%s: the object is being deleted: %v, %q", name, err, events.all)
		}
		if err := work(patience + 1); err == nil || errors.As(err, &notYetError{}) || !strings.Contains(err.Error(), "example.com/slow") || !events.has("is being deleted") {
			t.Errorf("%s: the object is still being deleted: %v, %q", name, err, events.all)
		}
		live := &corev1.ConfigMap{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(old), live); err != nil {
			t.Fatal(err)
		}
		live.Finalizers = nil
		if err := w.Client.Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
		if err := work(patience + 1); err != nil {
			t.Errorf("%s: the object is gone: %v", name, err)
		}
		live = &corev1.ConfigMap{}
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(old), live); err != nil || live.DeletionTimestamp != nil {
			t.Errorf("%s: it is not generated again: %v, %+v", name, err, live)
		}
	}
}

// The work ends when the namespace of the object is being deleted, also while the object still exists and is being deleted, too.
func TestObjectsInANamespaceThatIsBeingDeleted(t *testing.T) {
	for _, apply := range []bool{false, true} {
		for _, there := range []bool{false, true} {
			trigger := triggerSpec("n", "there", "u1")
			old := configMapOf("n", "there-made", "d", claiming("anybody", "n", "u1"))
			at := metav1.Now()
			old.Finalizers, old.DeletionTimestamp = []string{"example.com/slow"}, &at
			objects := []client.Object{configMapOf("n", "there", "u1", triggers)}
			if there {
				objects = append(objects, old)
			}
			w, events := newMarked(t, objects...)
			program := *w.Snapshot().Programs()[0]
			rule := *program.Rules[0]
			rule.Generation, program.Rules = &policy.Generation{Synchronize: true, ServerSideApply: apply}, []*policy.Rule{&rule}
			w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{&program}) }
			ending := apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "there-made", errors.New("the namespace is being terminated"))
			ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"}}
			w.Client = interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return ending },
				Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
					return ending
				},
			})
			renew(w)
			u := workOf(t, "anybody", trigger, "CREATE", "u", configMapOf("n", "there", "u1", triggers))
			for _, waited := range []time.Duration{0, patience + 1} {
				err := w.one(t.Context(), &task{u: u, RuleContext: updaterequest.Rules(&u.Spec)[0], reads: w.read.reads([]kyvernov2.ResourceSpec{trigger}), waited: waited})
				if err != nil || len(events.all) > 0 {
					t.Errorf("applied: %v, the object exists: %v, after %s: %v, %q", apply, there, waited, err, events.all)
				}
			}
		}
	}
}

// defaulting is an API server that adds a default to ConfigMaps, and stores no update without a change.
func defaulting(updates *int) interceptor.Funcs {
	add := func(o client.Object) {
		if u, ok := o.(*unstructured.Unstructured); ok && u.GetKind() == "ConfigMap" && u.GetName() == "there-made" {
			_ = unstructured.SetNestedField(u.Object, "default", "data", "added")
		}
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			add(o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			u, ok := o.(*unstructured.Unstructured)
			if !ok {
				return c.Update(ctx, o, opts...)
			}
			*updates++
			add(u)
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(u.GroupVersionKind())
			if err := c.Get(ctx, client.ObjectKeyFromObject(o), live); err != nil || value.Equal(u.Object, live.Object) {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	}
}

// An object to which the API server adds defaults is neither written nor reported again in each round. A change of the object, and a change
// of the plan, are.
func TestDefaultsOfTheAPIServer(t *testing.T) {
	for name, recorded := range map[string]bool{"recorded": true, "not recorded": false} {
		there := configMapOf("n", "there", "u1", triggers)
		w, events := newMarked(t, there)
		updates := 0
		u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "", "", nil)
		withRequest(t, w, defaulting(&updates), u, there)
		// round returns what the work for the trigger did.
		round := func() (written int, reported bool) {
			t.Helper()
			updates, events.all = 0, nil
			if !recorded {
				w.Made.Record.Drop("made")
			}
			if err := carry(t, w, u); err != nil {
				t.Fatal(err)
			}
			return updates, events.has("resource generated")
		}
		edit := func(key, text string) {
			t.Helper()
			live := &corev1.ConfigMap{}
			if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: "n", Name: "there-made"}, live); err != nil {
				t.Fatal(err)
			}
			live.UID = "made" // the client of the test sets none
			live.Data[key] = text
			if err := w.Client.Update(t.Context(), live); err != nil {
				t.Fatal(err)
			}
		}
		if _, reported := round(); !reported {
			t.Errorf("%s: the new object is not reported", name)
		}
		edit("k", "mine")
		if written, reported := round(); written != 1 || !reported {
			t.Errorf("%s: after a change by another client: %d writes, reported: %v", name, written, reported)
		}
		want := 1
		if recorded {
			want = 0
		}
		for range 3 {
			if written, reported := round(); written != want || reported {
				t.Errorf("%s: in a further round: %d writes, want %d, reported: %v", name, written, want, reported)
			}
		}
		edit("added", "mine")
		if written, reported := round(); written != 1 || !reported {
			t.Errorf("%s: after a change of the default by another client: %d writes, reported: %v", name, written, reported)
		}
		w.Made.Keys = func(context.Context, bool) (*seal.Keyring, error) { return keyringOf(t, 2, 1), nil } // the plan has another mark
		if written, reported := round(); written != 1 || !reported {
			t.Errorf("%s: after a change of the plan: %d writes, reported: %v", name, written, reported)
		}
	}
}

// about records the objects of events.
type about struct{ uids []string }

func (a *about) Record(x event.Event) {
	for _, r := range []event.Reference{x.Regarding, x.Related} {
		if r.Kind == "ConfigMap" {
			a.uids = append(a.uids, r.UID)
		}
	}
}

// The events about a new object have its UID: kubectl describe shows no others.
func TestEventsOfNewObjects(t *testing.T) {
	there, events := configMapOf("n", "there", "u1", triggers), &about{}
	w, _ := newMarked(t, there)
	u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "", "", nil)
	withRequest(t, w, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		o.SetUID("made")
		return c.Create(ctx, o, opts...)
	}}, u, there)
	w.report.events = events
	if err := carry(t, w, u); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(events.uids, []string{"made", "made"}) {
		t.Errorf("%q", events.uids)
	}
}

package execute

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/value"
)

// The worker waits until the API server has stored a request, also if an UpdateRequest has no room for the objects of the request: for those
// of a trigger, of a source, and of a generated object.
func TestLargeObjectsAreAwaited(t *testing.T) {
	const gone = "DELETE" // the object of a deletion has the place of the old object
	for what, x := range map[string]struct {
		operation   admissionv1.Operation
		old, object bool // which objects are in the UpdateRequest
	}{
		"all of an update":          {"UPDATE", true, true},
		"the old object only":       {"UPDATE", true, false},
		"the new object only":       {"UPDATE", false, true},
		"nothing of an update":      {"UPDATE", false, false},
		"all of a deletion":         {gone, true, false},
		"nothing of a large object": {gone, false, false},
	} {
		for _, role := range []string{"trigger", "source", "generated object"} {
			trigger := triggerSpec("n", "there", "u1")
			about := configMapOf("n", "there", "u1", triggers)
			if role == "generated object" {
				about = markedAs(t, configMapOf("n", "there-made", "d", claiming("anybody", "n", "u1")), "anybody", trigger, false)
			}
			about.Data = map[string]string{"k": "v"}
			objects := []client.Object{about}
			if role == "generated object" {
				objects = append(objects, configMapOf("n", "there", "u1", triggers))
			}
			w, _ := newMarked(t, objects...)
			live := &corev1.ConfigMap{}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(about), live); err != nil {
				t.Fatal(err)
			}
			u := workOf(t, "anybody", trigger, x.operation, "u", about)
			if role == "source" {
				u.Labels = map[string]string{updaterequest.LabelSource: ""}
				u.Spec.RuleContext = []kyvernov2.RuleContext{{Rule: "anybody", Synchronize: true, DeleteDownstream: x.operation == gone}}
			}
			r := u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
			content := func(has bool, data string) []byte {
				if !has {
					return nil
				}
				return []byte(value.JSON(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"k": data}, "metadata": map[string]any{
					"name": about.Name, "namespace": about.Namespace, "uid": string(about.UID), "resourceVersion": live.ResourceVersion,
					"labels": anyMap(about.Labels), "annotations": anyMap(about.Annotations),
				}}))
			}
			r.OldObject.Raw, r.Object.Raw = content(x.old, "v"), content(x.object, "new")
			for _, waited := range []time.Duration{0, patience - 1, patience} {
				one := &task{u: u, RuleContext: updaterequest.Rules(&u.Spec)[0], reads: w.read.reads([]kyvernov2.ResourceSpec{trigger}), waited: waited}
				err := w.one(t.Context(), one)
				if got := errors.As(err, &notYetError{}); got != (waited < patience) && !(got && x.operation == gone) {
					t.Errorf("%s, %s: after %s it waits: %v (%v)", role, what, waited, got, err)
				}
			}
		}
	}
}

// The work of an update is done once, when the API server has stored the update; at once if the update has no changes. UpdateRequests of an
// earlier release do not always say that.
func TestUpdatesWithoutTheirObjects(t *testing.T) {
	for name, c := range map[string]struct {
		old, object bool // which objects are in the UpdateRequest
		note        string
		mutates     bool
		storedAfter time.Duration
		done        time.Duration // when the rule is evaluated
	}{
		"stored at once":            {old: true, note: "changed from VERSION", storedAfter: time.Millisecond, done: 50 * time.Millisecond},
		"stored late":               {note: "changed from VERSION", storedAfter: 10 * time.Second, done: 10 * time.Second},
		"a Secret, stored late":     {old: true, object: true, note: "changed from VERSION", storedAfter: 10 * time.Second, done: 10 * time.Second},
		"a Secret, no changes":      {old: true, object: true, note: "unchanged", storedAfter: time.Hour, done: 0},
		"large, no changes":         {note: "unchanged", storedAfter: time.Hour, done: 0},
		"stored already":            {old: true, object: true, note: "changed from an earlier version", storedAfter: time.Hour, done: 0},
		"targets, stored late":      {note: "changed from VERSION", mutates: true, storedAfter: 10 * time.Second, done: 10 * time.Second},
		"targets, no changes":       {old: true, note: "unchanged", mutates: true, storedAfter: time.Hour, done: 0},
		"earlier, stored late":      {old: true, storedAfter: 10 * time.Second, done: 10 * time.Second},
		"earlier, no changes":       {old: true, object: true, storedAfter: time.Hour, done: patience},
		"earlier, unknown versions": {storedAfter: 10 * time.Second, done: patience},
	} {
		synctest.Test(t, func(t *testing.T) {
			trigger := configMapOf("n", "there", "u1", nil)
			w, _ := newMarked(t, trigger)
			u := workOf(t, "anybody", triggerSpec("n", "there", "u1"), "UPDATE", "u", trigger)
			stored := withRequest(t, w, interceptor.Funcs{}, u, trigger)
			live := &corev1.ConfigMap{}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(trigger), live); err != nil {
				t.Fatal(err)
			}
			left, _ := stored()
			if c.mutates {
				left.Spec.RequestType = kyvernov2.Mutate
				program := &policy.Program{Kind: "ClusterPolicy", Name: "p", UID: "p", Rules: []*policy.Rule{{Name: "anybody", Stage: policy.StageMutateExisting}}}
				w.Snapshot = func() *catalog.Snapshot { return catalog.NewStatic([]*policy.Program{program}) }
			}
			r := left.Spec.Context.AdmissionRequestInfo.AdmissionRequest
			r.Object.Raw, r.OldObject.Raw = nil, nil
			content := []byte(value.JSON(map[string]any{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "there", "namespace": "n", "uid": "u1", "resourceVersion": live.ResourceVersion},
			}))
			if c.old {
				r.OldObject.Raw = content
			}
			if c.object {
				r.Object.Raw = content
			}
			if c.note != "" {
				left.Annotations = map[string]string{updaterequest.AnnotationUpdate: strings.ReplaceAll(c.note, "VERSION", live.ResourceVersion)}
			}
			if err := w.Client.Update(t.Context(), left); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			var done []time.Duration
			w.Eval = func(context.Context, engine.Input) policy.Outcome {
				done = append(done, time.Since(began))
				return policy.Outcome{}
			}
			renew(w)
			store := time.AfterFunc(c.storedAfter, func() {
				live.Labels = triggers
				if err := w.Client.Update(context.WithoutCancel(t.Context()), live); err != nil {
					t.Error(err)
				}
			})
			defer store.Stop()
			_, took := run(t, w, u.Name, 100)
			if _, left := stored(); left || took > c.done+10*time.Second {
				t.Errorf("%s: the UpdateRequest is left: %v, after %s", name, left, took)
			}
			if len(done) != 1 || done[0] < c.done || done[0] > c.done+10*time.Second {
				t.Errorf("%s: it was evaluated after %s, want %s", name, done, c.done)
			}
		})
	}
}

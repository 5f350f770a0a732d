package execute

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
	"ephor.invalid/ephor/internal/value"
)

func object(t *testing.T, json string) *unstructured.Unstructured {
	t.Helper()
	v, err := value.DecodeJSON([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: v.(map[string]any)}
}

// S7: a namespaced policy writes only in its namespace and never writes policies, whatever was planned. There is no client here, so nothing
// is even read.
func TestReach(t *testing.T) {
	w := NewWorker(WorkerOptions{Log: slog.New(slog.DiscardHandler), Made: &origin.Objects{}})
	own := &task{
		program: &policy.Program{Kind: "Policy", Namespace: "team", Name: "p"},
		rule:    &policy.Rule{Name: "r", WorkPlan: policy.WorkPlan{Generation: &policy.Generation{Synchronize: true}}},
	}
	for _, made := range []string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"other"}}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"a"}}`,
		`{"apiVersion":"kyverno.io/v1","kind":"Policy","metadata":{"name":"a","namespace":"team"}}`,
		`{"apiVersion":"kyverno.io/v2","kind":"CleanupPolicy","metadata":{"name":"a","namespace":"team"}}`,
	} {
		u := object(t, made)
		if err := w.apply.write(t.Context(), own, &policy.Generated{Object: u.Object}); err == nil || !strings.Contains(err.Error(), "out of reach") {
			t.Errorf("generate %s: %v", made, err)
		}
		after := u.DeepCopy()
		after.SetLabels(map[string]string{"a": "b"})
		if err := w.apply.mutate(t.Context(), own, &policy.Mutated{Before: u.Object, After: after.Object, Status: policy.StatusPass}); err == nil || !strings.Contains(err.Error(), "out of reach") {
			t.Errorf("mutate %s: %v", made, err)
		}
		if u.GetNamespace() == "team" {
			continue // objects of the namespace are allowed
		}
		if err := w.Made.Remove(t.Context(), own.program, []origin.Object{{Unstructured: u}}); err != nil {
			t.Errorf("delete %s: %v", made, err)
		}
	}
}

func TestReplaced(t *testing.T) {
	live := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"theirs":"1","ours":"old"},"finalizers":["f"]},"data":{"k":"old","more":"x"},"status":{"s":1}}`)
	planned := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","labels":{"ours":"new"}},"data":{"k":"new"}}`)
	want := object(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"theirs":"1","ours":"new"},"finalizers":["f"]},"data":{"k":"new"},"status":{"s":1}}`)
	next := replaced(live, planned)
	if !value.Equal(next.Object, want.Object) {
		t.Errorf("%s", value.JSON(next.Object))
	}
	if again := replaced(next, planned); !value.Equal(again.Object, next.Object) {
		t.Errorf("the second time: %s", value.JSON(again.Object))
	}
	got := overlay(live.Object["data"], next.Object["data"])
	if !value.Equal(got, map[string]any{"k": "new", "more": "x"}) {
		t.Errorf("overlay: %v", got)
	}
}

// Fields that the API server set to defaults at the creation, and that must not change, stay if the API server rejects the plain planned
// content.
func TestOverlay(t *testing.T) {
	const live = `{"spec":{"containers":[{"name":"a","image":"x","mounts":[{"name":"token"}]},{"name":"b","image":"y","mounts":[{"name":"token"}]}],"volumes":[{"name":"token"}],"args":["1","2"]}}`
	for planned, want := range map[string]string{
		`{"spec":{"containers":[{"name":"b","image":"z"}]}}`:                 `{"spec":{"containers":[{"name":"b","image":"z","mounts":[{"name":"token"}]}],"volumes":[{"name":"token"}],"args":["1","2"]}}`,
		`{"spec":{"containers":[{"image":"z"},{"name":"c"},"odd"]}}`:         `{"spec":{"containers":[{"image":"z"},{"name":"c"},"odd"],"volumes":[{"name":"token"}],"args":["1","2"]}}`,
		`{"spec":{"args":["3"],"volumes":{"name":"token"},"containers":[]}}`: `{"spec":{"containers":[],"volumes":{"name":"token"},"args":["3"]}}`,
		`{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}`:                live,
	} {
		if got := overlay(object(t, live).Object, object(t, planned).Object); !value.Equal(got, object(t, want).Object) {
			t.Errorf("%s: %s", planned, value.JSON(got))
		}
	}
}

// The stored request of an UpdateRequest is that of the trigger, unless the work has another cause.
func TestStored(t *testing.T) {
	raw := func(s string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(s)} }
	for name, c := range map[string]struct {
		request *kyvernov2.AdmissionRequest
		want    bool
	}{
		"the trigger":       {&kyvernov2.AdmissionRequest{Operation: admissionv1.Create, Object: raw(`{"metadata":{"uid":"u"}}`)}, true},
		"the trigger, gone": {&kyvernov2.AdmissionRequest{Operation: admissionv1.Delete, OldObject: raw(`{"metadata":{"uid":"u"}}`)}, true},
		"its subresource":   {&kyvernov2.AdmissionRequest{Operation: admissionv1.Create, SubResource: "eviction", Object: raw(`{}`)}, true},
		"what was made":     {&kyvernov2.AdmissionRequest{Operation: admissionv1.Delete, OldObject: raw(`{"metadata":{"uid":"other","name":"a"}}`)}, false},
		"nobody":            {nil, false},
	} {
		u := &kyvernov2.UpdateRequest{}
		u.Spec.Context.AdmissionRequestInfo.AdmissionRequest = c.request
		x := &task{u: u, RuleContext: kyvernov2.RuleContext{Trigger: kyvernov2.ResourceSpec{Name: "a", UID: "u"}}}
		if got := x.stored(); (got != nil) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The worker waits until the API server has stored an update. An update without changes is never stored.
func TestAwaits(t *testing.T) {
	r := &kyvernov2.AdmissionRequest{Operation: "UPDATE"}
	for _, c := range []struct {
		old, object string
		want        bool
	}{
		{`{"metadata":{"resourceVersion":"1"},"a":1}`, `{"metadata":{"resourceVersion":"1"},"a":2}`, true},
		{`{"metadata":{"resourceVersion":"1"},"a":1}`, `{"metadata":{"resourceVersion":"1"},"a":1}`, false},
		{`{"metadata":{"resourceVersion":"0"},"a":1}`, `{"metadata":{"resourceVersion":"0"},"a":2}`, false},
		{`{"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"1"}}`, `{"apiVersion":"v1","kind":"Secret","metadata":{"resourceVersion":"1"}}`, true},
		{``, ``, true},
	} {
		r.OldObject.Raw, r.Object.Raw = []byte(c.old), []byte(c.object)
		if got := (&task{u: &kyvernov2.UpdateRequest{}}).awaits(r, "1"); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestOnlyConflicts(t *testing.T) {
	conflict := wrap(apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "a", errors.New("newer")), "update")
	for _, c := range []struct {
		err  error
		want bool
	}{
		{conflict, true}, {errors.Join(conflict, conflict), true}, {errors.Join(errors.Join(conflict), nil), true},
		{errors.Join(conflict, errors.New("no")), false}, {fmt.Errorf("no"), false},
	} {
		seen := &tally{}
		w := NewWorker(WorkerOptions{Observer: seen})
		if c.want {
			if again, err := w.end.failed(t.Context(), &kyvernov2.UpdateRequest{}, c.err); again != firstLook || err != nil || seen.again != 0 {
				t.Errorf("%v: it counts as a failure", c.err)
			}
		}
		if got := onlyConflicts(c.err); got != c.want {
			t.Errorf("%v: %v", c.err, got)
		}
	}
}

func TestContexts(t *testing.T) {
	trigger, source := kyvernov2.ResourceSpec{Name: "t"}, kyvernov2.ResourceSpec{Name: "s"}
	old := updaterequest.Rules(&kyvernov2.UpdateRequestSpec{Rule: "r", Resource: trigger, DeleteDownstream: true})
	if len(old) != 1 || old[0].Trigger != trigger || !old[0].DeleteDownstream {
		t.Errorf("%+v", old)
	}
	now := updaterequest.Rules(&kyvernov2.UpdateRequestSpec{Resource: source, RuleContext: []kyvernov2.RuleContext{{Rule: "a", Trigger: trigger}, {Rule: "b"}}})
	if len(now) != 2 || now[0].Trigger != trigger || now[1].Trigger != source {
		t.Errorf("%+v", now)
	}
}

// tally counts the rounds that failed.
type tally struct {
	unobserved
	again int
}

func (c *tally) Requeued(string, int) { c.again++ }

package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/value"
)

const onePolicy = `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p, resourceVersion: "7"}
spec:
  rules:
  - name: check
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: m, pattern: {metadata: {labels: {team: "?*"}}}}
  - name: change
    match: {any: [{resources: {kinds: [ConfigMap]}}]}
    mutate: {patchStrategicMerge: {metadata: {labels: {a: b}}}}
`

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return &o
}

// desired returns the status of a policy as a value of its type.
func desired(o *unstructured.Unstructured, notReady error, now time.Time) (s kyvernov1.PolicyStatus, err error) {
	tree, err := Desired(nil, o, family.State{NotReady: notReady, Now: now})
	if err == nil {
		err = json.Unmarshal(value.AppendJSON(nil, tree), &s)
	}
	return s, err
}

func treeOf(t *testing.T, s kyvernov1.PolicyStatus) map[string]any {
	t.Helper()
	tree, err := family.Tree(s)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestDesired(t *testing.T) {
	now := time.Unix(1000, 0)
	s, err := desired(object(t, onePolicy), nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Conditions[0]; c.Type != "Ready" || c.Status != metav1.ConditionTrue || c.Reason != "Succeeded" || c.Message != "Ready" || !c.LastTransitionTime.Time.Equal(now) {
		t.Errorf("%+v", c)
	}
	if s.RuleCount.Validate != 1 || s.RuleCount.Mutate != 1 || s.RuleCount.Generate != 0 {
		t.Errorf("%+v", s.RuleCount)
	}
	s, err = desired(object(t, onePolicy), errors.New("the served resources cannot be listed"), now)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Conditions[0]; c.Status != metav1.ConditionFalse || c.Reason != "Failed" || c.Message != "Not Ready: the served resources cannot be listed" {
		t.Errorf("%+v", c)
	}
	tree, err := Desired(nil, object(t, onePolicy), family.State{Lacking: []family.LackingRights{{Text: "u requires permissions create for resource v1/Secret"}, {Text: "and get"}}, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, _ := unstructured.NestedSlice(tree, "conditions")
	if c := conditions[0].(map[string]any); len(conditions) != 1 || c["status"] != "False" || c["message"] != "Not Ready: u requires permissions create for resource v1/Secret; and get" {
		t.Errorf("%+v", conditions)
	}
	// Clients of classic policies expect one condition, so that of a policy which may not use the login of the installation says so itself.
	tree, err = Desired(nil, object(t, onePolicy), family.State{Withheld: true, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	conditions, _, _ = unstructured.NestedSlice(tree, "conditions")
	if c := conditions[0].(map[string]any); len(conditions) != 1 || c["status"] != "True" || c["reason"] != "Succeeded" || c["message"] != "Ready. "+family.TextLogin {
		t.Errorf("%+v", conditions)
	}
	if _, err := desired(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "kyverno.io/v1", "kind": "Policy", "spec": "text"}}, nil, now); err == nil {
		t.Error("what cannot be read is an error")
	}
}

func TestDerivedRulesAndTransitionTime(t *testing.T) {
	only := object(t, `
apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata: {name: p}
spec:
  rules:
  - name: check
    match: {any: [{resources: {kinds: [Pod]}}]}
    validate: {message: m, pattern: {spec: {hostNetwork: "false"}}}
`)
	first, err := desired(only, nil, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Autogen.Rules) != 2 || first.Autogen.Rules[0].Name != "autogen-check" || first.Autogen.Rules[1].Name != "autogen-cronjob-check" {
		t.Fatalf("%+v", first.Autogen.Rules)
	}
	only.Object["status"], _ = runtime.DefaultUnstructuredConverter.ToUnstructured(&first)
	second, err := desired(only, nil, time.Unix(2000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if !second.Conditions[0].LastTransitionTime.Time.Equal(time.Unix(1000, 0)) {
		t.Error("the transition time changed without a transition")
	}
	// A second pass writes nothing: the client would panic.
	if written, err := (&Writer{}).Write(context.Background(), only, treeOf(t, second)); written || err != nil {
		t.Error(written, err)
	}
}

func TestGlobalContext(t *testing.T) {
	entry := func(s any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		if s != nil {
			tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
			if err != nil {
				t.Fatal(err)
			}
			o.Object["status"] = tree
		}
		return o
	}
	first, later := GlobalContext(entry(nil), errors.New("permission denied"), time.Time{}, time.Unix(1000, 0))
	if c := first.Conditions[0]; c.Status != metav1.ConditionFalse || c.Message != "permission denied" || !first.LastRefreshTime.IsZero() || later != 0 {
		t.Errorf("%+v, %v", first, later)
	}
	second, later := GlobalContext(entry(&first), nil, time.Unix(1010, 500), time.Unix(1011, 0))
	if c := second.Conditions[0]; c.Status != metav1.ConditionTrue || c.Message != "Ready" || c.LastTransitionTime.Unix() != 1011 || second.LastRefreshTime.Unix() != 1010 || later != 0 {
		t.Errorf("%+v, %v", second, later)
	}
	// A newer time alone is written at most every ten seconds.
	third, later := GlobalContext(entry(&second), nil, time.Unix(1012, 0), time.Unix(1012, 0))
	if third.LastRefreshTime.Unix() != 1010 || third.Conditions[0].LastTransitionTime.Unix() != 1011 || later == 0 {
		t.Errorf("%+v, %v", third, later)
	}
	if written, err := (&Writer{}).WriteGlobalContext(context.Background(), entry(&second), third); written || err != nil {
		t.Error(written, err)
	}
	fourth, later := GlobalContext(entry(&second), nil, time.Unix(1020, 0), time.Unix(1020, 0))
	if fourth.LastRefreshTime.Unix() != 1020 || later != 0 {
		t.Errorf("%+v, %v", fourth, later)
	}
	// A time that a wrong clock wrote does not stay until it has come; an older one of another replica does not replace the stored one.
	for now, want := range map[int64]int64{1005: 1005, 1020: 1010} {
		if s, later := GlobalContext(entry(&second), nil, time.Unix(1005, 0), time.Unix(now, 0)); s.LastRefreshTime.Unix() != want || later != 0 {
			t.Errorf("at %d: %+v, %v", now, s, later)
		}
	}
}

// A status that a wrong clock dated ahead does not hold up the use and the objects of an exception.
func TestExceptionStatusOfAWrongClock(t *testing.T) {
	began := time.Unix(1200, 0)
	for ahead, want := range map[time.Duration]bool{-time.Minute: true, time.Minute: false, ExceptionTurn: true, 24 * time.Hour: true} {
		at := metav1.NewTime(began.Add(ahead)).Format(time.RFC3339)
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "status": map[string]any{
			"use": map[string]any{"at": at, "last": at}, "objects": map[string]any{"at": at, "exempt": int64(7)},
		}}}
		now := began.Add(2 * time.Minute)
		rec := &patchRecorder{}
		w := &Writer{Client: rec}
		if written, err := w.WriteExceptionUse(t.Context(), o, &Uses{Last: now, Count: 1, Rules: map[string]bool{}}, now, began); err != nil || written != want {
			t.Errorf("use, %v ahead: written %v, %v", ahead, written, err)
		}
		if last := fmt.Sprintf(`"last":%q`, now.UTC().Format(time.RFC3339)); want && !strings.Contains(rec.body, last) {
			t.Errorf("use, %v ahead: %s", ahead, rec.body)
		}
		if written, err := w.WriteExceptionObjects(t.Context(), o, &kyvernov1.ExceptionObjectsStatus{At: metav1.NewTime(now)}, began); err != nil || written != want {
			t.Errorf("objects, %v ahead: written %v, %v", ahead, written, err)
		}
	}
}

// patchRecorder records the patch of a Writer.
type patchRecorder struct {
	client.Client // not called
	body          string
}

func (p *patchRecorder) Status() client.SubResourceWriter { return statusWriter{rec: p} }

type statusWriter struct {
	client.SubResourceWriter // not called
	rec                      *patchRecorder
}

func (w statusWriter) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	b, err := patch.Data(obj)
	w.rec.body = string(b)
	return err
}

func TestPatchNamesWhatHasGone(t *testing.T) {
	o := object(t, onePolicy)
	o.Object["status"] = map[string]any{"ready": true, "autogen": map[string]any{"rules": []any{map[string]any{"name": "autogen-old"}}}}
	s, err := desired(o, nil, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	s.Autogen.Rules = nil
	rec := &patchRecorder{}
	written, err := (&Writer{Client: rec}).Write(context.Background(), o, treeOf(t, s))
	if err != nil || !written {
		t.Fatal(written, err)
	}
	const want = `{"metadata":{"resourceVersion":"7"},"status":{"autogen":{"rules":null},"conditions":[{"lastTransitionTime":"1970-01-01T00:00:00Z","message":"Ready","reason":"Succeeded","status":"True","type":"Ready"}],"ready":null,"rulecount":{"generate":0,"mutate":1,"validate":1,"verifyimages":0},"validatingadmissionpolicy":{"generated":false,"message":""}}}`
	if rec.body != want {
		t.Errorf("got  %s\nwant %s", rec.body, want)
	}
}

// A rule with parameters has a field without a JSON name, which the converter of the API machinery rejects.
func TestParameters(t *testing.T) {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kyverno.io/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "p"},
		"spec": map[string]any{"rules": []any{map[string]any{
			"name": "r", "match": map[string]any{"any": []any{map[string]any{"resources": map[string]any{"kinds": []any{"Pod"}}}}},
			"validate": map[string]any{"cel": map[string]any{
				"paramRef":    map[string]any{"name": "limits", "parameterNotFoundAction": "Deny"},
				"expressions": []any{map[string]any{"expression": "true"}},
			}},
		}}},
	}}
	s, err := desired(o, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tree := treeOf(t, s)
	if err != nil || s.RuleCount.Validate != 1 || len(s.Conditions) != 1 || tree["conditions"] == nil {
		t.Errorf("%+v %v %v", s, tree, err)
	}
}

package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/policy"
)

// patches is a client that records writes to the status. The stored policy has the UID u.
type patches struct {
	client.Client
	written statuses
}

func (p *patches) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	o.SetUID("u")
	return nil
}

func (p *patches) Status() client.SubResourceWriter { return &p.written }

type statuses struct {
	client.SubResourceWriter
	body string
}

func (p *statuses) Patch(_ context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	body, err := patch.Data(o)
	p.body = string(body)
	return err
}

// celObject returns a policy whose conditions are nested in its status.
func celObject(status map[string]any) *unstructured.Unstructured {
	o := map[string]any{
		"apiVersion": "policies.kyverno.io/v1beta1", "kind": "DeletingPolicy",
		"metadata": map[string]any{"name": "p", "uid": "u", "generation": int64(1), "creationTimestamp": "2026-01-31T11:30:00Z"},
		"spec": map[string]any{"schedule": "0 * * * *", "matchConstraints": map[string]any{"resourceRules": []any{
			map[string]any{"apiGroups": []any{"", "apps"}, "apiVersions": []any{"v1"}, "resources": []any{"pods", "pods/exec"}, "resourceNames": []any{"a", "b"}},
		}}},
	}
	if status != nil {
		o["status"] = status
	}
	return &unstructured.Unstructured{Object: o}
}

func condition(kind, status, reason, message string) map[string]any {
	return map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-31T11:00:00Z"}
}

// The status of each family reports the result of a run in its own field, and keeps the other conditions.
func TestWriteStatus(t *testing.T) {
	granted := condition("RBACPermissionsGranted", "True", "Succeeded", "Policy is ready for deletion.")
	lacking := condition("RBACPermissionsGranted", "False", "Failed", "x")
	former := celObject(nil)
	former.SetUID("former")
	for _, c := range []struct {
		name   string
		object *unstructured.Unstructured
		out    outcome
		want   string // the status: what is true, and the time of the last run; empty if nothing is written
	}{
		{"a run", object("0 * * * *", "2026-01-31T11:30:00Z", "", nil), outcome{done: true, reason: reasonSucceeded, message: "deleted 1 object"},
			"conditions Ready=True:deleted 1 object last"},
		{"a run of the other family", celObject(nil), outcome{done: true, reason: reasonSucceeded, message: "deleted 1 object"},
			"ready=true Ready=True:deleted 1 object last"},
		{"a run that failed", celObject(map[string]any{"conditionStatus": map[string]any{"conditions": []any{granted}}}), outcome{failed: errors.New("x")},
			"ready=false RBACPermissionsGranted=True:Policy is ready for deletion. Ready=False:x"},
		{"a run that lacks rights", celObject(map[string]any{"conditionStatus": map[string]any{"conditions": []any{lacking}}}), outcome{done: true, message: "deleted 0 objects"},
			"ready=false RBACPermissionsGranted=False:x Ready=True:deleted 0 objects last"},
		{"the limit", celObject(nil), outcome{stopped: errors.New("too much")}, "ready=false Ready=False:too much"},
		{"rights", celObject(nil), outcome{rights: &metav1.Condition{Type: "RBACPermissionsGranted", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "m"}},
			"ready=true RBACPermissionsGranted=True:m"},
		{"the same rights", celObject(map[string]any{"conditionStatus": map[string]any{"conditions": []any{granted}}}),
			outcome{rights: &metav1.Condition{Type: "RBACPermissionsGranted", Status: metav1.ConditionTrue, Reason: "Succeeded", Message: "Policy is ready for deletion."}}, ""},
		{"unknown rights", celObject(nil), outcome{rights: &metav1.Condition{}, failed: errors.New("x")}, ""},
		{"a damaged status", celObject(map[string]any{"conditionStatus": "x", "lastExecutionTime": int64(3)}), outcome{done: true, message: "m"}, "ready=true Ready=True:m last"},
		{"a policy that changed", celObject(nil), outcome{stale: true}, ""},
		{"a policy that was deleted and made again", former, outcome{done: true, message: "m"}, ""},
	} {
		now := at("2026-01-31T12:00:10Z")
		ctl, _ := newController(&now)
		store := &patches{}
		ctl.Client = store
		addPolicy(ctl, c.object)
		e := ctl.policies[key(c.object)]
		if err := ctl.writeStatus(t.Context(), e, c.object, c.out, now); err != nil {
			t.Fatal(err)
		}
		if got := summary(t, store.written.body); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if c.want == "" {
			continue
		}
		// The cache still has the old object: earlier conditions are not lost.
		if err := ctl.writeStatus(t.Context(), e, c.object, outcome{failed: errors.New("later")}, now); err != nil {
			t.Fatal(err)
		}
		if before, after := strings.Count(c.want, "RBAC"), strings.Count(summary(t, store.written.body), "RBAC"); before != after {
			t.Errorf("%s: then %s", c.name, store.written.body)
		}
	}
}

func summary(t *testing.T, body string) string {
	t.Helper()
	if body == "" {
		return ""
	}
	var patch struct {
		Status struct {
			Conditions      []metav1.Condition
			ConditionStatus *struct {
				Ready      bool
				Conditions []metav1.Condition
			}
			LastExecutionTime string
		}
	}
	if err := json.Unmarshal([]byte(body), &patch); err != nil {
		t.Fatal(err, body)
	}
	parts := []string{"conditions"}
	conditions := patch.Status.Conditions
	if s := patch.Status.ConditionStatus; s != nil {
		parts, conditions = []string{"ready=" + map[bool]string{true: "true", false: "false"}[s.Ready]}, s.Conditions
	}
	for _, c := range conditions {
		parts = append(parts, c.Type+"="+string(c.Status)+":"+c.Message)
	}
	if patch.Status.LastExecutionTime != "" {
		parts = append(parts, "last")
	}
	return strings.Join(parts, " ")
}

// A run needs the rights to list and delete the resources that the policy names, limited to names if the policy gives them.
func TestMissingRights(t *testing.T) {
	program, diags := compile.One(compile.Object{Value: celObject(nil).Object})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var asked []Right
	served := discovery.List{{Version: "v1", Resource: "pods", Kind: "Pod"}, {Version: "v1", Resource: "pods", Subresource: "exec", Kind: "Pod"}}
	missing, err := MissingRights(t.Context(), program, served, func(_ context.Context, r Right) (bool, string, error) {
		asked = append(asked, r)
		return r.Verb == "list" || r.Name == "a", "no rule", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	pods := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	if want := []family.MissingRight{{Verb: "delete", Resource: pods, Reason: "no rule"}}; !reflect.DeepEqual(missing, want) {
		t.Errorf("missing %+v", missing)
	}
	if len(asked) != 4 {
		t.Errorf("asked for %+v", asked)
	}
	if _, err := MissingRights(t.Context(), program, served, func(context.Context, Right) (bool, string, error) { return false, "", errors.New("down") }); err == nil {
		t.Error("an API server that does not answer grants all")
	}
}

// Rights are checked before the first run, and repeatedly while some are missing.
func TestLookAtRights(t *testing.T) {
	now := at("2026-01-31T12:00:10Z")
	ctl, _ := newController(&now)
	lacking := true
	ctl.Missing = func(context.Context, *policy.Program) ([]family.MissingRight, error) {
		if lacking {
			return []family.MissingRight{{Verb: "delete", Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}}}, nil
		}
		return nil, nil
	}
	u, store := celObject(nil), &patches{}
	ctl.Client = store
	addPolicy(ctl, u)
	e := ctl.policies[key(u)]
	e.last = now // it is not due
	if _, err := ctl.Reconcile(t.Context(), key(u)); err != nil {
		t.Fatal(err)
	}
	if got := summary(t, store.written.body); !strings.HasPrefix(got, "ready=false RBACPermissionsGranted=False:Policy is not ready for deletion, ") {
		t.Errorf("the status of a new policy says %q", got)
	}
	e.check = now
	look := func() (out outcome, next string) {
		at, ok := ctl.checked(e)
		if !ok || at.After(now) {
			return outcome{}, "not yet"
		}
		out = ctl.checkRights(t.Context(), e, u)
		ctl.finish(e, out, now)
		return out, e.check.Sub(now).String()
	}
	out, next := look()
	if want := "Policy is not ready for deletion, missing permissions: delete /v1, Resource=pods: ."; out.rights == nil || out.rights.Message != want || next != longestWait.String() {
		t.Errorf("%+v, again in %s", out.rights, next)
	}
	if _, next = look(); next != "not yet" {
		t.Error("rights are checked continuously")
	}
	now, lacking = now.Add(longestWait), false
	if out, _ = look(); out.rights == nil || out.rights.Status != metav1.ConditionTrue {
		t.Errorf("%+v", out.rights)
	}
	now = now.Add(1000 * longestWait)
	if _, next = look(); next != "not yet" {
		t.Error("complete rights are checked again")
	}
	ctl.finish(e, outcome{done: true, lacking: true}, now) // the run was rejected
	if _, next = look(); next == "not yet" {
		t.Error("rights that were withdrawn are not checked again")
	}
}

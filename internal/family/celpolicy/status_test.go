package celpolicy_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/family"
	"ephor.invalid/ephor/internal/family/celpolicy"
	"ephor.invalid/ephor/internal/policy"
)

// The conditions report whether the policy has a webhook, and whether scans may read its resources. A policy is ready if all are true.
func TestStatus(t *testing.T) {
	served := &policy.Program{Webhooks: make([]policy.Webhook, 1), Settings: policy.Settings{Admission: true}}
	execs := schema.GroupVersionResource{Version: "v1", Resource: "pods/exec"}
	lacking := []family.LackingRights{{Text: "a sentence", Rights: []family.MissingRight{{Verb: "create", Resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}}}}}
	for _, c := range []struct {
		name             string
		state            family.State
		webhook, scanned bool
		want             []string
		ready            bool
	}{
		{"in force", family.State{Program: served}, true, true, []string{
			"WebhookConfigured True Succeeded Webhook configured.", "RBACPermissionsGranted True Succeeded Policy is ready for reporting.",
		}, true},
		{"not in force", family.State{Program: served, NotReady: errors.New("no CA")}, true, true, []string{
			"WebhookConfigured False Failed Policy is not configured in the webhook.\nno CA", "RBACPermissionsGranted True Succeeded Policy is ready for reporting.",
		}, false},
		{"one that asks for no webhook", family.State{Program: &policy.Program{}}, true, false, []string{
			"WebhookConfigured False Failed Policy is not configured in the webhook.",
			"RBACPermissionsGranted True Succeeded Background scanning disabled; reporting permissions not required.",
		}, false},
		{"neither requests nor scans", family.State{Program: &policy.Program{Webhooks: make([]policy.Webhook, 1)}}, true, false, []string{
			"WebhookConfigured False Failed Policy is not configured in the webhook.",
			"RBACPermissionsGranted True Succeeded Background scanning disabled; reporting permissions not required.",
		}, false},
		{"one that cannot be used", family.State{NotReady: errors.New("the compiler panicked")}, false, true, []string{
			"WebhookConfigured False Failed Policy is not configured in the webhook.\nthe compiler panicked", "RBACPermissionsGranted True Succeeded Policy is ready for reporting.",
		}, false},
		{"scans alone", family.State{Program: &policy.Program{}}, false, true, []string{
			"RBACPermissionsGranted True Succeeded Policy is ready for reporting.",
		}, true},
		{"rights are missing", family.State{Program: served, Missing: []family.MissingRight{{Verb: "get", Resource: execs}, {Verb: "list", Resource: execs, Reason: "no"}}}, true, true, []string{
			"WebhookConfigured True Succeeded Webhook configured.",
			"RBACPermissionsGranted False Failed Policy is not ready for reporting, missing permissions: get /v1, Resource=pods/exec: ; list /v1, Resource=pods/exec: no.",
		}, false},
		{"the work lacks rights", family.State{Program: served, Lacking: lacking}, true, false, []string{
			"WebhookConfigured True Succeeded Webhook configured.",
			"RBACPermissionsGranted False Failed The background controller cannot carry out the policy, missing permissions: create /v1, Resource=secrets: .",
		}, false},
		{"reports and the work lack rights", family.State{Program: served, Missing: []family.MissingRight{{Verb: "get", Resource: execs}}, Lacking: lacking}, true, true, []string{
			"WebhookConfigured True Succeeded Webhook configured.",
			"RBACPermissionsGranted False Failed Policy is not ready for reporting, missing permissions: get /v1, Resource=pods/exec: ." +
				" The background controller cannot carry out the policy, missing permissions: create /v1, Resource=secrets: .",
		}, false},
		{"T22: the login of the installation is withheld", family.State{Program: served, Withheld: true}, true, true, []string{
			"WebhookConfigured True Succeeded Webhook configured.", "RBACPermissionsGranted True Succeeded Policy is ready for reporting.",
			"OperatorLogin False Namespaced The policy reads image registries with Secrets of its namespace and of the object only. Private images that need the installation's pull secrets" +
				" or cloud identity cannot be read: name pull secrets in the policy, or let an administrator set --namespacedPoliciesUseOperatorLogin.",
		}, true},
	} {
		c.state.Now = time.Unix(1000, 0)
		tree, err := celpolicy.Status(map[string]any{}, c.state, c.webhook, c.scanned, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, ready := conditions(t, tree); strings.Join(got, "\n") != strings.Join(c.want, "\n") || ready != c.ready {
			t.Errorf("%s: ready %v\n%s\nwant %v\n%s", c.name, ready, strings.Join(got, "\n"), c.ready, strings.Join(c.want, "\n"))
		}
	}
}

// Transition times and fields of other controllers stay unchanged. A condition that no longer applies is removed.
func TestStatusStays(t *testing.T) {
	served := &policy.Program{Webhooks: make([]policy.Webhook, 1), Settings: policy.Settings{Admission: true}}
	first, err := celpolicy.Status(map[string]any{}, family.State{Program: served, Now: time.Unix(1000, 0)}, true, true, map[string]any{"defaults": map[string]any{"targets": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := first["autogen"].(map[string]any)["configs"].(map[string]any)["defaults"]; !ok {
		t.Errorf("the generated policies are missing: %v", first)
	}
	first["generated"] = true
	second, err := celpolicy.Status(map[string]any{"status": first}, family.State{Program: served, Now: time.Unix(2000, 0)}, false, true, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	got, ready := conditions(t, second)
	if len(got) != 1 || !ready || second["generated"] != true || text(t, second["autogen"]) != "{}" || !strings.Contains(text(t, second), `"lastTransitionTime":"1970-01-01T00:16:40Z"`) {
		t.Errorf("%s", text(t, second))
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func conditions(t *testing.T, tree map[string]any) (out []string, ready bool) {
	t.Helper()
	var s struct {
		ConditionStatus struct {
			Ready      bool
			Conditions []struct{ Type, Status, Reason, Message string }
		}
	}
	if err := json.Unmarshal([]byte(text(t, tree)), &s); err != nil {
		t.Fatal(err)
	}
	for _, c := range s.ConditionStatus.Conditions {
		out = append(out, strings.Join([]string{c.Type, c.Status, c.Reason, c.Message}, " "))
	}
	return out, s.ConditionStatus.Ready
}

package policyreview

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/world"
)

// approvers grants the verb approve to jane. With down, it does not answer.
type approvers struct {
	down  bool
	asked []world.AccessRequest
}

func (a *approvers) Allowed(_ context.Context, r world.AccessRequest) (bool, string, error) {
	a.asked = append(a.asked, r)
	if a.down {
		return false, "", errors.New("no answer")
	}
	return r.Username == "jane" && r.Verb == "approve" && r.Resource == "policyexceptions" && r.Group == "kyverno.io" && r.Namespace == "shop", "", nil
}

// Only a user with the verb approve approves, and only by a change of the exception.
func TestApprove(t *testing.T) {
	const (
		head      = "{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e, namespace: shop"
		spec      = "}, spec: {exceptions: [{policyName: p, ruleNames: [r]}], match: {any: [{resources: {kinds: [Pod]}}]}}}"
		exception = head + spec
		labelled  = head + ", labels: {a: b}" + spec
		approved  = head + ", annotations: {exceptions.ephor.dev/approve: 'yes'}" + spec
	)
	for _, c := range []struct {
		what, user, object, old string
		down, dry, off          bool
		pending                 bool
		by                      string
	}{
		{what: "an approver creates", user: "jane", object: exception, by: "jane"},
		{what: "a dry run", user: "jane", object: exception, dry: true},
		{what: "another user creates", user: "joe", object: exception, pending: true},
		{what: "the right is not known", user: "jane", object: exception, down: true, pending: true},
		{what: "an approver only labels", user: "jane", object: labelled, old: exception},
		{what: "an approver annotates", user: "jane", object: approved, old: exception, by: "jane"},
		{what: "an approver annotates again", user: "jane", object: strings.Replace(approved, "yes", "again", 1), old: approved, by: "jane"},
		{what: "an approver changes nothing", user: "jane", object: approved, old: approved},
		{what: "another user annotates", user: "joe", object: approved, old: exception, pending: true},
		{what: "no approval is required", user: "joe", object: exception, off: true},
	} {
		access := &approvers{down: c.down}
		by := ""
		v := &Reviewer{
			Options: Options{Exceptions: Exceptions{Enabled: true, Namespace: "*", Approval: !c.off, Approved: func(_ map[string]any, user string) { by = user }}},
			Root:    world.RootFunc(func(world.Reach) world.World { return world.World{Access: access} }), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		}
		req := &policy.Request{Review: policy.Review{
			Operation: policy.Create, Object: value.Of(golden.Decode[map[string]any](t, []byte(c.object))), User: &policy.User{Username: c.user}, DryRun: c.dry,
			GVR: schema.GroupVersionResource{Group: "kyverno.io", Version: "v2", Resource: "policyexceptions"}, Namespace: "shop", Name: "e",
		}}
		if c.old != "" {
			req.Operation, req.OldObject = policy.Update, value.Of(golden.Decode[map[string]any](t, []byte(c.old)))
		}
		answer := v.Exception(t.Context(), req)
		if pending := strings.Contains(strings.Join(answer.Warnings, "\n"), textPending); !answer.Allowed || pending != c.pending || by != c.by {
			t.Errorf("%s: %+v, approved by %q", c.what, answer, by)
		}
		if c.off && len(access.asked) > 0 {
			t.Errorf("%s: %v", c.what, access.asked)
		}
	}
}

// Only the controllers write approvals: an earlier approval of the same spec cannot be put back.
func TestApprovalsAreNotPutBack(t *testing.T) {
	const none, approved, other = "{}", "{status: {approval: {by: jane, seal: s1}}}", "{status: {approval: {by: jane, seal: s2}, notEvaluated: {message: m}}}"
	const controller, tenant = "system:serviceaccount:ephor:admission", "system:serviceaccount:shop:deployer"
	for _, c := range []struct {
		what, user, from, to string
		off, refused         bool
	}{
		{what: "a controller approves", user: controller, from: none, to: approved},
		{what: "a user puts an approval back", user: tenant, from: none, to: approved, refused: true},
		{what: "a user exchanges an approval", user: tenant, from: other, to: approved, refused: true},
		{what: "a user removes an approval", user: tenant, from: approved, to: none},
		{what: "a user changes another field", user: tenant, from: approved, to: "{status: {approval: {by: jane, seal: s1}, notEvaluated: {message: m}}}"},
		{what: "no approval is required", user: tenant, from: none, to: approved, off: true},
	} {
		v := &Reviewer{Options: Options{Exceptions: Exceptions{Enabled: true, Namespace: "*", Approval: !c.off, Controllers: "ephor"}}, Now: time.Now}
		answer := v.Exception(t.Context(), &policy.Request{Review: policy.Review{
			Operation: policy.Update, Subresource: "status", User: &policy.User{Username: c.user}, Namespace: "shop", Name: "e",
			Object: value.Of(golden.Decode[map[string]any](t, []byte(c.to))), OldObject: value.Of(golden.Decode[map[string]any](t, []byte(c.from))),
		}})
		if answer.Allowed == c.refused || c.refused && answer.Message != textApprovalWritten {
			t.Errorf("%s: %+v", c.what, answer)
		}
	}
}

package policyreview

import (
	"testing"
	"time"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/golden"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/settings"
	"ephor.invalid/ephor/internal/value"
)

func TestRequirements(t *testing.T) {
	s, diags := settings.Parse(map[string]string{"exceptions": `{"requiredAnnotations": ["exceptions.ephor.dev/reason", "example.com/ticket"], "maxDays": 30,
		"users": ["jane"], "groups": ["team-*"], "message": "Ask in #security."}`})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	const (
		head  = "{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e, namespace: n, annotations: {"
		spec  = "}}, spec: {exceptions: [{policyName: p, ruleNames: [r]}], match: {any: [{resources: {kinds: [Pod]}}]}}}"
		other = "}}, spec: {exceptions: [{policyName: q, ruleNames: [r]}], match: {any: [{resources: {kinds: [Pod]}}]}}}"
		whole = head + "exceptions.ephor.dev/reason: x, example.com/ticket: T-1, exceptions.ephor.dev/expires-at: '2026-01-31T00:00:00Z'" + spec
	)
	jane := &policy.User{Username: "jane"}
	for _, c := range []struct {
		what, object, old string
		user              *policy.User
		want              string
	}{
		{"all of it", whole, "", jane, ""},
		{"by a group", whole, "", &policy.User{Username: "joe", Groups: []string{"team-a"}}, ""},
		{"by another user", whole, "", &policy.User{Username: "joe"}, "the user joe may not write exceptions"},
		{"nothing", head + spec, "", jane, "the annotation exceptions.ephor.dev/reason is missing; the annotation example.com/ticket is missing; it has no end, and may last 30 days at most"},
		{"an empty reason", head + "exceptions.ephor.dev/reason: ' ', example.com/ticket: T-1, exceptions.ephor.dev/expires-at: '2026-01-31T00:00:00Z'" + spec, "", jane, "the annotation exceptions.ephor.dev/reason is missing"},
		{"a late end", head + "exceptions.ephor.dev/reason: x, example.com/ticket: T-1, exceptions.ephor.dev/expires-at: '2026-02-28T00:00:00Z'" + spec, "", jane, "it may end at 2026-01-31T00:00:00Z at the latest"},
		{"a stored one that does not change", head + spec, head + spec, &policy.User{Username: "joe"}, ""},
		{"a stored one that changes", head + spec, head + other, jane, "the annotation exceptions.ephor.dev/reason is missing; the annotation example.com/ticket is missing; it has no end, and may last 30 days at most"},
	} {
		v := &Reviewer{Options: Options{Settings: func() *settings.Settings { return s }}, Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }}
		object := golden.Decode[map[string]any](t, []byte(c.object))
		req := &policy.Request{Review: policy.Review{Operation: policy.Create, Object: value.Of(object), User: c.user}}
		if c.old != "" {
			req.Operation, req.OldObject = policy.Update, value.Of(golden.Decode[map[string]any](t, []byte(c.old)))
		}
		e, _ := compile.OneException(compile.Object{Value: object})
		want := c.want
		if want != "" {
			want = textUnmet + want + "\nAsk in #security."
		}
		if got := v.unmet(req, object, e); got != want {
			t.Errorf("%s: got %q, want %q", c.what, got, want)
		}
	}
}

// An exception that is being deleted is in force until its last finalizer is removed: its end may not be moved then either.
func TestRequirementsWhileDeleting(t *testing.T) {
	s, diags := settings.Parse(map[string]string{"exceptions": `{"maxDays": 30}`})
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	const (
		head  = "{apiVersion: kyverno.io/v2, kind: PolicyException, metadata: {name: e, namespace: shop, deletionTimestamp: '2026-01-01T00:00:00Z'"
		spec  = "}, spec: {exceptions: [{policyName: p, ruleNames: [r]}], match: {any: [{resources: {kinds: [Pod]}}]}}}"
		held  = head + ", finalizers: [example.com/f], annotations: {exceptions.ephor.dev/expires-at: '2026-01-31T00:00:00Z'}" + spec
		freed = head + ", annotations: {exceptions.ephor.dev/expires-at: '2026-01-31T00:00:00Z'}" + spec
		wide  = head + ", finalizers: [example.com/f]" + spec
	)
	for _, c := range []struct {
		what, object, old string
		want              string
	}{
		{"a finalizer is removed", freed, held, ""},
		{"one without an end loses a finalizer", head + spec, wide, ""},
		{"the end is removed", wide, held, textUnmet + "it has no end, and may last 30 days at most"},
	} {
		v := &Reviewer{
			Options: Options{Settings: func() *settings.Settings { return s }, Exceptions: Exceptions{Enabled: true, Namespace: "*"}},
			Now:     func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
		}
		req := &policy.Request{Review: policy.Review{
			Operation: policy.Update, Namespace: "shop", User: &policy.User{Username: "joe"},
			Object: value.Of(golden.Decode[map[string]any](t, []byte(c.object))), OldObject: value.Of(golden.Decode[map[string]any](t, []byte(c.old))),
		}}
		if got := v.Exception(t.Context(), req); got.Allowed != (c.want == "") || got.Message != c.want {
			t.Errorf("%s: %+v, want %q", c.what, got, c.want)
		}
	}
}

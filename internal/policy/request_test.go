package policy

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/world"
)

func TestServiceAccount(t *testing.T) {
	for user, want := range map[string][2]string{
		"system:serviceaccount:ns:sa": {"ns", "sa"}, "system:serviceaccount:ns": {"", ""}, "alice": {"", ""},
	} {
		ns, name := (&Request{Review: Review{User: &User{Username: user}}}).ServiceAccount()
		if ns != want[0] || name != want[1] {
			t.Errorf("%s: %q %q", user, ns, name)
		}
	}
}

func TestActionFor(t *testing.T) {
	plan := ActionPlan{Default: Audit, Overrides: []ActionOverride{
		{Action: Deny, Namespaces: []string{"prod-*"}, Selector: func(l map[string]string) bool { return l["x"] == "y" }},
		{Action: Deny, Namespaces: []string{"always"}},
	}}
	r := &Rule{Effect: Effect{Action: plan}}
	labels := func(l map[string]string, err error) func() (map[string]string, error) {
		return func() (map[string]string, error) { return l, err }
	}
	for _, c := range []struct {
		ns     string
		labels func() (map[string]string, error)
		want   Action
		err    bool
	}{
		{"dev", labels(nil, errors.New("must not be asked")), Audit, false},
		{"prod-1", labels(map[string]string{"x": "y"}, nil), Deny, false},
		{"prod-1", labels(nil, nil), Audit, false},
		{"prod-1", labels(nil, errors.New("gone")), Deny, true}, // if unknown, the strictest action applies
		{"always", labels(nil, errors.New("must not be asked")), Deny, false},
	} {
		got, err := ActionFor(r, c.ns, c.labels)
		if got != c.want || (err != nil) != c.err {
			t.Errorf("%s: %v %v", c.ns, got, err)
		}
	}
}

// Missing information is an error for the rule that needs it. It never counts as "none".
func TestUnknownIsAnError(t *testing.T) {
	r := &Request{Review: Review{Namespace: "ns", User: &User{Username: "alice"}}}
	if _, err := r.NamespaceLabels(t.Context()); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("labels of a namespace that cannot be looked up: %v", err)
	}
	if _, err := r.Roles(t.Context()); !errors.Is(err, world.ErrUnavailable) {
		t.Errorf("roles of a user that cannot be looked up: %v", err)
	}
	nobody := &Request{}
	if _, err := nobody.NamespaceLabels(t.Context()); err != nil {
		t.Errorf("a cluster-scoped object lies in no namespace: %v", err)
	}
	if _, err := nobody.Roles(t.Context()); err != nil {
		t.Errorf("nobody has no roles: %v", err)
	}
}

// A trigger that no request brought up has the name and kind that its request had, but no requester. A plain scan has neither.
func TestTriggerDocument(t *testing.T) {
	review := Review{Origin: FromScan, Operation: Create, RequestGVK: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: "team"}
	for _, trigger := range []bool{false, true} {
		review.Trigger = trigger
		doc, err := (&Request{Review: review}).makeDocument()
		if err != nil {
			t.Fatal(err)
		}
		kind, _ := doc["kind"].(map[string]any)
		if known := doc["name"] == "team" && kind["kind"] == "Namespace"; known != trigger {
			t.Errorf("trigger %v: name %v, kind %v", trigger, doc["name"], kind)
		}
		if doc["userInfo"] != nil {
			t.Errorf("trigger %v: a requester %v", trigger, doc["userInfo"])
		}
	}
}

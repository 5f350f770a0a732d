package mark

import (
	"testing"

	"ephor.invalid/ephor/internal/seal"
)

// An approval is one of this exception, as it is, by this user.
func TestApproval(t *testing.T) {
	key, err := seal.NewKey(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := seal.NewKeyring(key)
	if err != nil {
		t.Fatal(err)
	}
	object := func(change func(object, metadata map[string]any)) map[string]any {
		m := map[string]any{
			"name": "e", "namespace": "n", "uid": "u", "generation": int64(2),
			"annotations": map[string]any{"exceptions.ephor.dev/expires-at": "2026-01-31T00:00:00Z", "other": "x"}, "labels": map[string]any{"polex.kyverno.io/priority": "1", "team": "a"},
		}
		o := map[string]any{"apiVersion": "kyverno.io/v2", "kind": "PolicyException", "metadata": m, "spec": map[string]any{"exceptions": []any{"p"}}}
		change(o, m)
		return o
	}
	domain, parts := Approval(object(func(_, _ map[string]any) {}), "jane")
	proof := ring.Seal(domain, parts...)
	for _, c := range []struct {
		what   string
		user   string
		change func(object, metadata map[string]any)
		holds  bool
	}{
		{"the same", "jane", func(_, _ map[string]any) {}, true},
		{"another version", "jane", func(o, _ map[string]any) { o["apiVersion"] = "kyverno.io/v2beta1" }, true},
		{"another label", "jane", func(_, m map[string]any) { m["labels"].(map[string]any)["team"] = "b" }, true},
		{"another annotation", "jane", func(_, m map[string]any) { m["annotations"].(map[string]any)["other"] = "y" }, true},
		{"a status", "jane", func(o, _ map[string]any) { o["status"] = map[string]any{} }, true},
		{"another user", "joe", func(_, _ map[string]any) {}, false},
		{"a copy", "jane", func(_, m map[string]any) { m["uid"] = "v" }, false},
		{"changed and changed back", "jane", func(_, m map[string]any) { m["generation"] = int64(4) }, false},
		{"another spec", "jane", func(o, _ map[string]any) { o["spec"] = map[string]any{"exceptions": []any{"*"}} }, false},
		{"another group", "jane", func(o, _ map[string]any) { o["apiVersion"] = "policies.kyverno.io/v1" }, false},
		{"another end", "jane", func(_, m map[string]any) {
			m["annotations"].(map[string]any)["exceptions.ephor.dev/expires-at"] = "2999-01-31T00:00:00Z"
		}, false},
		{"another priority", "jane", func(_, m map[string]any) { m["labels"].(map[string]any)["polex.kyverno.io/priority"] = "9" }, false},
	} {
		domain, parts := Approval(object(c.change), c.user)
		if holds := ring.Check(proof, domain, parts...) == nil; holds != c.holds {
			t.Errorf("%s: the approval holds: %v", c.what, holds)
		}
	}
}

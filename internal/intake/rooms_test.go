package intake

import (
	"slices"
	"testing"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/policy"
)

// TestT15Namespaces: a policy that exceeds the rest of its namespace has no room until another one leaves. Policies of other namespaces, and
// those of the cluster, have their own.
func TestT15Namespaces(t *testing.T) {
	var r rooms
	id := func(namespace, name string) policy.ID {
		return policy.ID{Kind: "NamespacedValidatingPolicy", Namespace: namespace, Name: name}
	}
	compiles := func(id policy.ID, held int64) bool {
		a, leave := r.enter(id)
		defer leave()
		for ; held > 0; held -= 1 << 20 {
			if a.Charge(compilecost.Cost{Held: 1 << 20}) != nil {
				return false
			}
		}
		return true
	}
	const most = compilecost.MaxPolicyBytes
	for _, name := range []string{"a", "b", "a"} { // also again
		if !compiles(id("x", name), most) {
			t.Errorf("%s has no room", name)
		}
	}
	if compiles(id("x", "c"), 1<<20) || !compiles(id("x", "d"), 0) {
		t.Error("the namespace has room for more than its bound, or none for a policy without expressions")
	}
	if !compiles(id("y", "a"), most) || !compiles(id("", "a"), most) || !compiles(id("", "b"), most) || !compiles(id("", "c"), most) {
		t.Error("policies of another namespace or of the cluster have no room")
	}
	if w := r.waiting("x"); len(w) != 0 {
		t.Errorf("%v are compiled again although no policy left", w)
	}
	r.forget(id("x", "a"))
	if w := r.waiting("x"); !slices.Equal(w, []policy.ID{id("x", "c")}) {
		t.Errorf("%v are compiled again, want c", w)
	}
	if !compiles(id("x", "c"), 1<<20) || len(r.of["x"].crowded) != 0 {
		t.Error("c has no room after a left")
	}
	for _, name := range []string{"b", "c", "d"} {
		r.forget(id("x", name))
	}
	if r.of["x"] != nil {
		t.Error("the namespace without policies is kept")
	}
}

package policykind_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ephor-dev/ephor/internal/policykind"
)

// The table has no two rows for one kind or resource, and every row is complete.
func TestTable(t *testing.T) {
	kinds, resources := map[schema.GroupKind]bool{}, map[schema.GroupResource]bool{}
	names := map[string]bool{}
	for k := range policykind.All() {
		gk, gr := k.GVK().GroupKind(), k.GVR().GroupResource()
		if kinds[gk] || resources[gr] || names[k.Kind] {
			t.Errorf("%s: there are two rows", gk)
		}
		kinds[gk], resources[gr], names[k.Kind] = true, true, true
		if k.Family == "" || k.Group == "" || k.Kind == "" || k.Resource == "" || len(k.Versions) == 0 || k.Source == "" {
			t.Errorf("%s: the row is not complete: %+v", gk, k)
		}
		if policykind.Of(k.Group, k.Kind) != k || policykind.Named(k.Kind) != k {
			t.Errorf("%s: not found", gk)
		}
		if policykind.Delegates(gk) != k.Namespaced {
			t.Errorf("%s: Delegates is %v, want %v as for every policy in a namespace", gk, !k.Namespaced, k.Namespaced)
		}
		if !slices.Contains(slices.Collect(policykind.InFamily(k.Family)), k) {
			t.Errorf("%s is not in its family", gk)
		}
	}
	if k := policykind.Owner("kyverno.io/v9", "Policy"); k != policykind.Scoped(policykind.Classic, true) || policykind.Owner("v1", "Policy") != nil {
		t.Errorf("the owner of a Policy is %+v", k)
	}
	if policykind.Of("example.com", "ClusterPolicy") != nil || policykind.Delegates(schema.GroupKind{Group: "example.com", Kind: "Policy"}) {
		t.Error("a kind of another group counts as a policy")
	}
}

// Each type of UpdateRequest names at most one kind of each scope, so that its key finds one policy.
func TestForWork(t *testing.T) {
	type at struct {
		work       string
		namespaced bool
	}
	seen := map[at]string{}
	for k := range policykind.All() {
		for _, w := range k.Work {
			if other := seen[at{w, k.Namespaced}]; other != "" {
				t.Errorf("%s and %s both have work of type %s", other, k.Kind, w)
			}
			seen[at{w, k.Namespaced}] = k.Kind
			if policykind.ForWork(w, k.Namespaced) != k {
				t.Errorf("ForWork(%s, %v) is not %s", w, k.Namespaced, k.Kind)
			}
		}
	}
	if len(seen) == 0 || policykind.ForWork("unknown", false) != nil {
		t.Error("an unknown type of work has a kind")
	}
}

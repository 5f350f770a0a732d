package compile_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/family/celpolicy"
)

// No two families have a kind or a resource in common, and every descriptor is complete.
func TestFamilies(t *testing.T) {
	kinds, resources := map[schema.GroupKind]bool{}, map[schema.GroupResource]bool{}
	names, families := map[string]bool{}, map[string]bool{}
	for _, f := range compile.Product.Families() {
		if f.Name == "" || f.Doc == "" || families[f.Name] || len(f.Kinds) == 0 || f.Compile == nil {
			t.Errorf("family %q is not complete, or there are two", f.Name)
		}
		families[f.Name] = true
		for _, k := range f.Kinds {
			if compile.FamilyOf(k.GVK().GroupVersion().String(), k.Kind) != f {
				t.Errorf("%s is not in its family", k.Kind)
			}
		}
		for _, c := range f.Companions {
			if c.Group == "" || c.Kind == "" || len(c.Versions) == 0 || c.Compile == nil || compile.CompanionOf(c.Group+"/v1", c.Kind) == nil || names[c.Kind] {
				t.Errorf("the companion %s is not complete", c.Kind)
			}
			names[c.Kind] = true
		}
		if f.Exceptions != celpolicy.Exceptions {
			continue
		}
		for _, k := range f.Kinds {
			if _, known := celpolicy.Environments[strings.TrimPrefix(k.Kind, celpolicy.NamespacedPrefix)]; !known {
				t.Errorf("an exception cannot name %s: give the kind an environment in Environments (internal/family/celpolicy/exception_conditions.go)", k.Kind)
			}
		}
	}
	for _, k := range compile.Kinds {
		gk, gr := k.GVK().GroupKind(), k.GVR().GroupResource()
		if kinds[gk] || resources[gr] || names[k.Kind] {
			t.Errorf("%s: there are two rows", gk)
		}
		kinds[gk], resources[gr], names[k.Kind] = true, true, true
		if k.Group == "" || k.Kind == "" || k.Resource == "" || len(k.Versions) == 0 || k.Source == "" {
			t.Errorf("%s: the row is not complete: %+v", gk, k)
		}
		if compile.Kinds.Of(k.Group, k.Kind) != k || compile.Kinds.Named(k.Kind) != k {
			t.Errorf("%s: not found", gk)
		}
		if compile.Kinds.Delegates(gk) != k.Namespaced {
			t.Errorf("%s: Delegates is %v, want %v as for every policy in a namespace", gk, !k.Namespaced, k.Namespaced)
		}
	}
	for _, k := range compile.Kinds {
		// The API server has no webhook for its own policies.
		if reviewed := k.Review != 0; reviewed == k.Foreign {
			t.Errorf("%s: reviewed is %v", k.Kind, reviewed)
		}
		if m := k.Metrics; m != nil && (m.Name == "" || m.Kind == "" || m.Per == "" || k.Names().Metrics != m.Name) {
			t.Errorf("%s: the metrics are not complete: %+v", k.Kind, m)
		}
		if r := k.Run; r != nil && (r.Controller == "" || r.Delete == "" || r.Deleted == "" || len(r.Conditions) == 0 || r.Metrics == "" || k.Names().Deletions != r.Metrics) {
			t.Errorf("%s: the description of the runs is not complete: %+v", k.Kind, r)
		}
		if s := k.Switch; s != nil && (s.Flag == "" || s.Usage == "") {
			t.Errorf("%s: the flag is not complete: %+v", k.Kind, s)
		}
	}
	if k := compile.Kinds.Owner("kyverno.io/v9", "Policy"); k == nil || k.Kind != "Policy" || compile.Kinds.Owner("v1", "Policy") != nil {
		t.Errorf("the owner of a Policy is %+v", k)
	}
	if compile.Kinds.Of("example.com", "ClusterPolicy") != nil || compile.Kinds.Delegates(schema.GroupKind{Group: "example.com", Kind: "Policy"}) {
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
	for _, k := range compile.Kinds {
		for _, w := range []string{k.Work.Generate, k.Work.Mutate} {
			if w == "" {
				continue
			}
			if other := seen[at{w, k.Namespaced}]; other != "" {
				t.Errorf("%s and %s both have work of type %s", other, k.Kind, w)
			}
			seen[at{w, k.Namespaced}] = k.Kind
			if compile.Kinds.ForWork(w, k.Namespaced) != k {
				t.Errorf("ForWork(%s, %v) is not %s", w, k.Namespaced, k.Kind)
			}
		}
	}
	if len(seen) == 0 || compile.Kinds.ForWork("unknown", false) != nil {
		t.Error("an unknown type of work has a kind")
	}
}

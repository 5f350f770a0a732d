package celpolicy

import (
	"slices"
	"strings"

	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/family"
	"github.com/ephor-dev/ephor/internal/strict"
)

// Group is the API group of the families.
const Group = "policies.kyverno.io"

// NamespacedPrefix begins the name of a namespaced kind: NamespacedValidatingPolicy.
const NamespacedPrefix = "Namespaced"

// The served versions; the first is the stored one. The deprecated v1alpha1 has no namespaced kinds.
var (
	versions           = []string{"v1beta1", "v1", "v1alpha1"}
	namespacedVersions = []string{"v1beta1", "v1"}
)

// Kinds returns the cluster-wide kind that k describes, and its namespaced sibling.
func Kinds(k family.Kind) family.Kinds {
	k.Group, k.Versions = Group, versions
	namespaced := k
	namespaced.Kind, namespaced.Resource, namespaced.Short = NamespacedPrefix+k.Kind, strings.ToLower(NamespacedPrefix)+k.Resource, "n"+k.Short
	namespaced.Versions, namespaced.Namespaced = namespacedVersions, true
	if k.LabelPrefix != "" {
		namespaced.LabelPrefix = "n" + k.LabelPrefix
	}
	return family.Kinds{&k, &namespaced}
}

// Decode fills out, a policy of the kinds, from an object of any served version. Unknown fields and values of the wrong type are
// diagnostics at their field paths, and everything else is decoded. The status belongs to the controllers and is not checked.
func Decode(object map[string]any, out any, kinds family.Kinds) (diags diag.List) {
	for _, d := range strict.Decode(object, out) {
		if d.Path != "status" && !strings.HasPrefix(d.Path, "status.") {
			diags.Add(d)
		}
	}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if k := kinds.Of(Group, kind); k != nil {
		checkVersion(&diags, apiVersion, kind, k.Versions)
	}
	return diags
}

func checkVersion(diags *diag.List, apiVersion, kind string, served []string) {
	if _, version, _ := strings.Cut(apiVersion, "/"); !slices.Contains(served, version) {
		diags.Errorf("apiVersion", "no version %q of %s in group %s", version, kind, Group)
		diags.Hint("served versions are %s", strings.Join(served, ", "))
	}
}

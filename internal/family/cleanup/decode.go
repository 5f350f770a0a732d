package cleanup

import (
	"slices"
	"strings"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/strict"
)

// Group is the API group of the family.
const Group = "kyverno.io"

// The kinds of the family.
const (
	CleanupPolicy        = "CleanupPolicy"
	ClusterCleanupPolicy = "ClusterCleanupPolicy"
)

// Owns reports whether the object belongs to the family, in any version.
func Owns(apiVersion, kind string) bool {
	return familyKinds.Owner(apiVersion, kind) != nil
}

// Decode decodes a policy of any served version; its Kind distinguishes the two kinds, which have the same fields. Unknown fields and
// values of the wrong type become diagnostics at their field paths, and everything else is decoded. The status belongs to the controller
// and is not checked.
func Decode(object map[string]any) (*kyvernov2.ClusterCleanupPolicy, diag.List) {
	p := &kyvernov2.ClusterCleanupPolicy{}
	found := strict.Decode(object, p)
	var diags diag.List
	for _, d := range found {
		if d.Path != "status" && !strings.HasPrefix(d.Path, "status.") {
			diags.Add(d)
		}
	}
	if _, version, _ := strings.Cut(p.APIVersion, "/"); !slices.Contains(versions, version) {
		diags.Errorf("apiVersion", "no version %q of %s in group %s", version, p.Kind, Group)
		diags.Hint("served versions are %s", strings.Join(versions, " and "))
	}
	return p, diags
}

// namespace returns the namespace of a CleanupPolicy; empty for a ClusterCleanupPolicy.
func namespace(p *kyvernov2.ClusterCleanupPolicy) string {
	switch {
	case p.Kind != CleanupPolicy:
		return ""
	case p.Namespace == "":
		return "default" // the default of kubectl
	}
	return p.Namespace
}

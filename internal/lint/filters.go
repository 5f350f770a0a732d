package lint

import (
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// placed is a filter of a match or exclude block with its field path.
type placed struct {
	kyvernov1.ResourceFilter
	path string // such as spec.rules[0].match.any[1]
}

// filtersOf lists the filters of a block.
func filtersOf(m *kyvernov1.MatchResources, path string) []placed {
	var out []placed
	for i, f := range m.Any {
		out = append(out, placed{f, path + ".any[" + strconv.Itoa(i) + "]"})
	}
	for i, f := range m.All {
		out = append(out, placed{f, path + ".all[" + strconv.Itoa(i) + "]"})
	}
	if !m.ResourceDescription.IsZero() || len(m.Roles)+len(m.ClusterRoles)+len(m.Subjects) > 0 {
		out = append(out, placed{kyvernov1.ResourceFilter{UserInfo: m.UserInfo, ResourceDescription: m.ResourceDescription}, path})
	}
	return out
}

// onlyKinds reports whether a filter has only kinds.
func onlyKinds(f *kyvernov1.ResourceFilter) bool {
	rest := f.ResourceDescription
	rest.Kinds = nil
	return len(f.ResourceDescription.Kinds) > 0 && rest.IsZero() && len(f.Roles)+len(f.ClusterRoles)+len(f.Subjects) == 0
}

func rulePath(i int) string { return "spec.rules[" + strconv.Itoa(i) + "]" }

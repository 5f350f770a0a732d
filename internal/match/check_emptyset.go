package match

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// matchesNothing reports whether exclude removes everything that match selects: exclude equals match or is wider. A true
// result is certain. It does not analyse wildcards, so it misses some rules that match nothing.
func matchesNothing(m, ex kyvernov1.MatchResources) bool {
	matched, matchAll, _ := filtersOf(m)
	excluded, excludeAll, _ := filtersOf(ex)
	if len(matched) == 0 || len(excluded) == 0 {
		return false
	}
	taken := func(m kyvernov1.ResourceFilter) bool {
		for _, e := range excluded {
			switch c := coversFilter(e, m); {
			case c && !excludeAll:
				return true
			case !c && excludeAll:
				return false
			}
		}
		return excludeAll
	}
	for _, f := range matched {
		// With `all`, one excluded filter makes the rule match nothing; with `any`, every filter must be excluded.
		switch t := taken(f); {
		case t && matchAll:
			return true
		case !t && !matchAll:
			return false
		}
	}
	return !matchAll
}

// coversFilter reports whether e selects every request that m selects: m is at least as strict as e in each attribute.
func coversFilter(e, m kyvernov1.ResourceFilter) bool {
	d, n := e.ResourceDescription, m.ResourceDescription
	if d.IsZero() && !asksUser(e.UserInfo) {
		return false // an empty filter excludes nothing
	}
	return coversList(d.Kinds, n.Kinds) &&
		coversList(namesOf(d), namesOf(n)) &&
		coversList(d.Namespaces, n.Namespaces) &&
		coversList(d.Operations, n.Operations) &&
		coversMap(d.Annotations, n.Annotations) &&
		coversSelector(d.Selector, n.Selector) &&
		coversSelector(d.NamespaceSelector, n.NamespaceSelector) &&
		coversList(e.Roles, m.Roles) &&
		coversList(e.ClusterRoles, m.ClusterRoles) &&
		coversList(e.Subjects, m.Subjects)
}

func namesOf(d kyvernov1.ResourceDescription) []string {
	if d.Name != "" {
		return append([]string{d.Name}, d.Names...)
	}
	return d.Names
}

// coversList reports whether e restricts nothing, or lists everything that m lists.
func coversList[T comparable](e, m []T) bool {
	if len(e) == 0 {
		return true
	}
	if len(m) == 0 {
		return false
	}
	for _, x := range m {
		if !slices.Contains(e, x) {
			return false
		}
	}
	return true
}

// coversMap reports whether m requires every pair that e requires.
func coversMap(e, m map[string]string) bool {
	for k, v := range e {
		if w, ok := m[k]; !ok || w != v {
			return false
		}
	}
	return true
}

func coversSelector(e, m *metav1.LabelSelector) bool {
	if e == nil {
		return true
	}
	if m == nil || !coversMap(e.MatchLabels, m.MatchLabels) {
		return false
	}
	for _, x := range e.MatchExpressions {
		if !slices.ContainsFunc(m.MatchExpressions, func(y metav1.LabelSelectorRequirement) bool {
			return reflect.DeepEqual(x, y)
		}) {
			return false
		}
	}
	return true
}

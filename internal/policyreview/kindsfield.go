package policyreview

import (
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
)

// kindsField returns the path of the list that contains the target in the match block of a rule; the path of the block if no list does.
// rule is the path of the rule in the object, such as spec.rules[0].
func kindsField(object map[string]any, rule string, t policy.Target) string {
	block, _ := at(object, rule)["match"].(map[string]any)
	path := rule + ".match"
	for _, list := range []string{"any", "all"} {
		filters, _ := block[list].([]any)
		for i, f := range filters {
			if filter, _ := f.(map[string]any); names(filter, t) {
				return path + "." + list + "[" + strconv.Itoa(i) + "].resources.kinds"
			}
		}
	}
	if names(block, t) {
		return path + ".resources.kinds"
	}
	return path
}

// at returns the map at the path; nil if there is none.
func at(object map[string]any, path string) map[string]any {
	for _, step := range strings.Split(path, ".") {
		name, index, listed := strings.Cut(strings.TrimSuffix(step, "]"), "[")
		if !listed {
			object, _ = object[name].(map[string]any)
			continue
		}
		list, _ := object[name].([]any)
		i, err := strconv.Atoi(index)
		if err != nil || i < 0 || i >= len(list) {
			return nil
		}
		object, _ = list[i].(map[string]any)
	}
	return object
}

// names reports whether one of the filter's selectors is the target.
func names(filter map[string]any, t policy.Target) bool {
	resources, _ := filter["resources"].(map[string]any)
	kinds, _ := resources["kinds"].([]any)
	for _, k := range kinds {
		text, _ := k.(string)
		found, err := match.ParseKind(text)
		if err == nil && found.Group == t.Group && found.Version == t.Version && found.Kind == t.Kind &&
			found.Subresource == t.Subresource && found.Resource == t.Resource {
			return true
		}
	}
	return false
}

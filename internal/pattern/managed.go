package pattern

import "strings"

// ReadsManagedFields reports whether the raw pattern v, matched against a resource, may look at its
// metadata.managedFields: it names them, or has a wildcard or a variable where they stand. When in doubt it says yes.
func ReadsManagedFields(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return vague(v)
	}
	for key, below := range m {
		if strings.ContainsAny(key, wildcards) || mayVary(key) {
			return true
		}
		if strings.Contains(key, "metadata") && metadataReads(below) {
			return true
		}
	}
	return false
}

const wildcards = "*?"

func metadataReads(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return vague(v)
	}
	for key := range m {
		if strings.ContainsAny(key, wildcards) || mayVary(key) || strings.Contains(key, "managedFields") {
			return true
		}
	}
	return false
}

// vague reports whether v may turn out to be a map.
func vague(v any) bool {
	s, ok := v.(string)
	return !ok || mayVary(s) || strings.Contains(s, "$(")
}

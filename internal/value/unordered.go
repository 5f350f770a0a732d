package value

import (
	"slices"
	"strings"
)

// Unordered returns v with lists of named objects sorted by name, for comparisons in which their order does not matter.
func Unordered(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = Unordered(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = Unordered(e)
		}
		name := func(e any) string { m, _ := e.(map[string]any); s, _ := m["name"].(string); return s }
		if !slices.ContainsFunc(out, func(e any) bool { return name(e) == "" }) {
			slices.SortStableFunc(out, func(a, b any) int { return strings.Compare(name(a), name(b)) })
		}
		return out
	}
	return v
}

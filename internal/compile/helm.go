package compile

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"ephor.invalid/ephor/internal/diag"
)

// helmText matches what only a template of Helm has: its values, its functions, and variables of a policy that it quotes.
var helmText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(^|[^\\\\])\\{\\{-?\\s*(`\\{\\{|\\.(Values|Release|Chart|Capabilities|Template)\\b|(include|template|tpl|toYaml)\\s+[\".$])")
})

// unrendered returns one mistake in place of the many that an unrendered template of Helm has; nil for other policies.
func unrendered(o Object) diag.List {
	path := helmPath(o.Value, "")
	if path == "" {
		return nil
	}
	var out diag.List
	out.Errorf(path, "this looks like a template of Helm, whose variables have no values yet")
	out.Hint("render it first: helm template CHART | ephor lint -")
	return out
}

// helmPath returns the path of the first text of a template of Helm; empty if there is none.
func helmPath(v any, path string) string {
	switch x := v.(type) {
	case string:
		if helmText().MatchString(x) {
			return path
		}
	case []any:
		for i, e := range x {
			if found := helmPath(e, path+"["+strconv.Itoa(i)+"]"); found != "" {
				return found
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(x)) {
			below := k
			if path != "" {
				below = path + "." + k
			}
			if found := helmPath(x[k], below); found != "" {
				return found
			}
		}
	}
	return ""
}

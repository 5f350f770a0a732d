package compile

import (
	"regexp"
	"sync"

	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/value"
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
	if text, ok := v.(string); ok && helmText().MatchString(text) {
		return path
	}
	for at, e := range value.Children(v, path) {
		if found := helmPath(e, at); found != "" {
			return found
		}
	}
	return ""
}

package lint

import (
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/compile"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/schema"
)

// Slips returns warnings about certain mistakes, for commands that evaluate policies. It skips the full checks for most policies, because
// nothing in their text hints at such a mistake.
func Slips(o compile.Object) (diags diag.List) {
	if !suspicious(o.Value["spec"], "") {
		return nil
	}
	for _, f := range Policy(o, Options{}) {
		if f.Check.slip {
			if f.Check == misspeltKind {
				f.Diagnostic.Code = diag.Unchecked
			}
			diags.Add(f.Diagnostic)
		}
	}
	return diags
}

// Causes returns warnings about mistakes because of which a rule ends in an error, for policies of which a rule did.
func Causes(o compile.Object) (diags diag.List) {
	for _, f := range Policy(o, Options{}) {
		if f.Check.cause {
			diags.Add(f.Diagnostic)
		}
	}
	return diags
}

// knownKinds are the names of the kinds of Kubernetes.
var knownKinds = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, k := range schema.New().Find("*", "*", "*", "") {
		names[k.Kind] = true
	}
	return names
})

// suspicious reports whether a text at the key, or below it, needs the full checks: a kind that Kubernetes lacks, a regular expression, a variable
// that is not closed.
func suspicious(v any, key string) bool {
	switch v := v.(type) {
	case string:
		return key == "kinds" && !strings.ContainsAny(v, "/*?") && !knownKinds()[v] || strings.Contains(v, "regex_") || unclosed(v)
	case []any:
		for _, e := range v {
			if suspicious(e, key) {
				return true
			}
		}
	case map[string]any:
		for k, e := range v {
			if suspicious(e, k) {
				return true
			}
		}
	}
	return false
}

package lint

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ephor-dev/ephor/internal/compile"
	"github.com/ephor-dev/ephor/internal/diag"
)

// Slips returns warnings about certain mistakes, for commands that evaluate policies. It skips the full checks for most policies, because
// nothing in their text hints at such a mistake.
func Slips(o compile.Object) (diags diag.List) {
	if !suspicious(o.Value["spec"], "") {
		return nil
	}
	for _, f := range Policy(o, Options{}) {
		if f.Check.slip {
			diags.Add(f.Diagnostic)
		}
	}
	return diags
}

// suspicious reports whether a text at the key, or below it, needs the full checks: a kind in lower case, a regular expression, a variable
// that is not closed.
func suspicious(v any, key string) bool {
	switch v := v.(type) {
	case string:
		first, _ := utf8.DecodeRuneInString(v)
		return key == "kinds" && unicode.IsLower(first) && !strings.Contains(v, "/") || strings.Contains(v, "regex_") || unclosed(v)
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

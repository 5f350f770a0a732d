package mutating

import (
	"regexp"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/cel/typecheck"
)

// template is the path to the Pod template of a controller.
type template []string

// podFields matches the fields of a Pod that a Pod template has, too. As in Kyverno, it does not match metadata alone.
var podFields = sync.OnceValue(func() *regexp.Regexp {
	const names = `(?:labels|annotations|finalizers)`
	return regexp.MustCompile(`\b(object|oldObject|Object)\.(spec\b|metadata\s*(?:\.\s*\??\s*` + names + `\b|\[\s*\??\s*(?:'` + names + `'|"` + names + `")\s*\]))`)
})

// references rewrites an expression for a Pod to the Pod template: object.spec becomes object.spec.template.spec, and the type Object.spec
// becomes Object.spec.template.spec. As in Kyverno, it replaces text, including text in quotes.
func (t template) references(expression string) string {
	return podFields().ReplaceAllString(expression, "${1}."+strings.Join(t, ".")+".${2}")
}

// configuration rewrites an expression that builds an Object: it does what references does, and moves the fields of the Pod into the Pod
// template.
func (t template) configuration(expression string) string {
	return t.wrap(t.references(expression))
}

// wrap moves the fields of each Object{…} into the Pod template.
func (t template) wrap(expression string) string {
	var opening strings.Builder
	path := "Object"
	for _, field := range t {
		path += "." + field
		opening.WriteString(field + ": " + path + "{")
	}
	closing := strings.Repeat("}", len(t))

	var out strings.Builder
	var roots []bool            // one for each open brace: whether it belongs to an Object
	before, last := byte(0), "" // the character before the last token, and that token
	for at := 0; at < len(expression); {
		next := typecheck.SkipToken(expression, at)
		token := expression[at:next]
		at = next
		switch {
		case token == "{":
			root := last == "Object" && before != '.'
			roots = append(roots, root)
			out.WriteString(token)
			if root {
				out.WriteString(opening.String())
			}
		case token == "}" && len(roots) > 0:
			if roots[len(roots)-1] {
				out.WriteString(closing)
			}
			roots = roots[:len(roots)-1]
			out.WriteString(token)
		default:
			out.WriteString(token)
		}
		if isBlank(token) {
			continue
		}
		if last != "" {
			before = last[len(last)-1]
		}
		last = token
	}
	return out.String()
}

// isBlank reports whether a token is white space or a comment.
func isBlank(token string) bool {
	return strings.HasPrefix(token, "//") || strings.TrimSpace(token) == ""
}

package celrule

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/strict"
)

var (
	keyInHas     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`has\(\s*([\w.]+)\[\s*('[^']*'|"[^"]*")\s*\]\s*\)`) })
	mapOperation = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\s*['"](op|path|value)['"]\s*:`) })
)

// undeclared matches the name of a variable or function that does not exist.
var undeclared = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`undeclared reference to '(\w+)'`) })

// variables are the names that expressions may begin with.
var variables = []string{"object", "oldObject", "request", "namespaceObject", "variables", "params", "images", "resource", "http", "globalContext", "image", "user", "time"}

// hint returns how to correct a mistake that is often made in an expression; empty for others. why is the compiler's reason.
func hint(text, path, why string) string {
	switch {
	case strings.Contains(why, "invalid argument to has() macro"):
		if m := keyInHas().FindStringSubmatch(text); m != nil {
			return "has() tests fields: write " + m[2] + " in " + m[1]
		}
		return "has() tests fields, as in has(object.data); whether a map has a key is 'key' in object.data"
	case strings.Contains(why, "undeclared reference to 'now'"):
		return "the current time is time.now()"
	case strings.Contains(why, "undeclared reference to 'authorizer'"):
		return "only policies of the API server have an authorizer: request.userInfo names the requester"
	case undeclared().MatchString(why):
		name := undeclared().FindStringSubmatch(why)[1]
		if slices.Contains(variables, name) {
			return name + " is not available in this field of this kind of policy"
		}
		if near := strict.Nearest(name, variables); near != "" {
			return "did you mean " + near + "?"
		}
		return "the variables are object, oldObject, request, namespaceObject and variables.⟨name⟩; quote a text: 'text'"
	case strings.Contains(why, "mismatched input '<EOF>'"):
		return "the expression ends too early"
	case strings.Contains(why, "Syntax error"):
		return "^ marks where the expression is no longer CEL"
	case strings.HasSuffix(path, ".jsonPatch.expression") && mapOperation().MatchString(text):
		return "write each operation as JSONPatch{op: 'add', path: '/metadata/labels/a', value: 'b'}"
	}
	return ""
}

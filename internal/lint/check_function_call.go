package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/template"
)

var functionCall = &Check{
	Name: "function-call",
	Doc: "Functions are looked up when an expression is evaluated, so that a policy with a misspelled one is accepted, and each of its " +
		"results is an error. The same holds for a call with the wrong number of arguments. `ephor jp function` lists the functions.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: registry
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      deny:
        conditions:
          any:
          - key: "{{ lower(request.object.metadata.name) }}"
            operator: Equals
            value: default
`,
	cause: true,
	policy: func(in *input) {
		declared := map[string]*jmespath.Function{}
		for _, f := range jmespath.Functions() {
			declared[f.Name] = &f
		}
		c := calls{in: in, declared: declared, names: slices.Sorted(maps.Keys(declared))}
		c.each = c.call
		for i, r := range in.rules {
			c.look(r, rulePath(i), true)
		}
	},
}

// calls finds the function calls of a policy.
type calls struct {
	in       *input
	declared map[string]*jmespath.Function
	names    []string
	each     func(t jmespath.Tree, name, path string) // is called for each function call
}

// look finds the variables in v and below it. In fields of the language it also finds bare queries, except in CEL, which
// has its own functions.
func (c *calls) look(v any, path string, language bool) {
	switch v := v.(type) {
	case string:
		for _, x := range template.Compile(v, template.Options{}).Expressions() {
			c.expression(x.String(), path)
		}
	case []any:
		for i, e := range v {
			c.look(e, fmt.Sprintf("%s[%d]", path, i), language)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at := path + "." + k
			text, isText := v[k].(string)
			switch {
			case language && (k == "cel" || k == "celPreconditions"):
			case language && isText && slices.Contains(queryFields, k):
				c.expression(filled(text), at)
				c.look(text, at, language)
			default:
				c.look(v[k], at, language && !classic.HoldsObject(k))
			}
		}
	}
}

// expression checks the calls in one expression. The compiler has already reported expressions that cannot be parsed.
func (c *calls) expression(text, path string) {
	if tree, err := jmespath.Parse(text); err == nil {
		c.tree(tree, path)
	}
}

func (c *calls) tree(t jmespath.Tree, path string) {
	if t.Kind == "ASTFunctionExpression" {
		if name, err := strconv.Unquote(t.Value); err == nil {
			c.each(t, name, path)
		}
	}
	for _, child := range t.Children {
		c.tree(child, path)
	}
}

func (c *calls) call(t jmespath.Tree, name, path string) {
	f, given := c.declared[name], len(t.Children)
	switch {
	case f == nil:
		hint := "`ephor jp function` lists the existing ones"
		if near := strict.Nearest(name, c.names); near != "" {
			hint = "did you mean " + near + "?"
		}
		c.in.warn(path, hint, "there is no function %s: evaluating it is an error", name)
	case f.Variadic && given < len(f.Args), !f.Variadic && len(f.Args) > 0 && given != len(f.Args):
		c.in.warn(path, f.Signature(), "the function %s is called with the wrong number of arguments, %d: evaluating it is an error", name, given)
	}
}

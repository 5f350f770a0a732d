package lint

import (
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/value"
)

var dataExpansion = &Check{
	Name: "data-expansion",
	Doc: "The policy evaluates data: a query, or a variable, that comes from the object or from the cluster. Data are plain text, so such an expression is an error, " +
		"and a variable within data stays as it is. Write the query in the policy, or have an operator name the policy in the key expandData of the ConfigMap, which is for cluster policies only. " +
		"The check does not see the content of ConfigMaps and API answers.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: owner
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      message: no owner
      deny:
        conditions:
          any:
          - key: "{{ {{ request.object.metadata.annotations.ownerQuery }} }}"
            operator: Equals
            value: nobody
`,
	policy: func(in *input) {
		for i, r := range in.rules {
			expansion(in, r, ownNames(nil, r), rulePath(i))
		}
	},
}

// ownNames adds the variables, from all contexts in v, whose value consists only of the author's text.
func ownNames(own []string, v any) []string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			own = ownNames(own, e)
		}
	case map[string]any:
		entries, _ := v["context"].([]any)
		for _, e := range entries {
			entry, _ := e.(map[string]any)
			name, _ := entry["name"].(string)
			variable, ok := entry["variable"].(map[string]any)
			if ok && authored(own, variableRoots(variable)) {
				own = append(own, name)
			}
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k != "context" {
				own = ownNames(own, v[k])
			}
		}
	}
	return own
}

// variableRoots returns the names that a context entry of kind variable reads.
func variableRoots(variable map[string]any) []string {
	out := template.Compile([]any{variable["value"], variable["default"], variable["jmesPath"]}, template.Options{}).Roots()
	if _, has := variable["value"]; has {
		return out
	}
	query, _ := variable["jmesPath"].(string)
	if x, err := jmespath.Compile(query); err == nil {
		out = append(slices.Clone(out), x.Roots()...)
	}
	return out
}

// authored reports whether all names are the author's. The elements of a loop may count as the author's.
func authored(own, names []string) bool {
	for _, n := range names {
		if !slices.Contains(own, n) && !strings.HasPrefix(n, "element") {
			return false
		}
	}
	return true
}

func expansion(in *input, v any, own []string, path string) {
	const hint = "write the query in the policy, with the value as a name or within quotes; or let an operator name the policy in the key expandData of the ConfigMap"
	if text, ok := v.(string); ok {
		for i, n := range template.NestedIn(text, "x") {
			if !authored(own, n.Roots) && syntax(n) && syntax(template.NestedIn(text, "0")[i]) {
				in.warn(path, hint, "the expression {{ %s }} evaluates a value that comes from data (x)", n.Query)
			}
		}
	}
	m, _ := v.(map[string]any)
	for at, e := range value.Children(v, path) {
		if text, ok := e.(string); ok && strings.HasSuffix(path, ".variable") {
			roots := template.Compile(text, template.Options{}).Roots()
			switch {
			case authored(own, roots):
			case at == path+".jmesPath" && m["value"] == nil && wholeVariable(text):
				in.warn(at, hint, "the query %s comes from data", text)
			case at == path+".value" && strings.Contains(text, `\{{`) && len(roots) > 0:
				in.warn(at, hint, "the variables that are written with a backslash stay text, since the value also holds data")
			}
		}
		expansion(in, e, own, at)
	}
}

// syntax reports whether the stand-ins are part of the syntax of the expression.
func syntax(n template.Nested) bool {
	if _, err := jmespath.Compile(n.Query); err != nil {
		return strings.HasPrefix(n.Query, "0") || strings.Contains(n.Query, "0(") // a name that begins with a digit is not what the author meant
	}
	_, err := jmespath.CompileQuoting(n.Query, jmespath.Quoting{Data: n.Data})
	return err != nil
}

// wholeVariable reports whether a text is exactly one variable.
func wholeVariable(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "{{") && strings.HasSuffix(text, "}}") && strings.Count(text, "{{") == 1
}

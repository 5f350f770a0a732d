package lint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/value"
)

var unusedContext = &Check{
	Name: "unused-context",
	Doc: "An entry of a context that nothing reads is never loaded: either the name is misspelled where it should be used, or the entry is superfluous. " +
		"Variables, the queries of loops, and later entries read an entry.",
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
    context:
    - name: registries
      variable:
        value: [ghcr.io]
    validate:
      deny:
        conditions:
          any:
          - key: "{{ request.object.spec.containers[0].image }}"
            operator: Equals
            value: ghcr.io
`,
	policy: func(in *input) {
		for i, r := range in.rules {
			unused(in, r, nil, rulePath(i))
		}
	},
}

// unused finds unused entries of contexts in v and below it. The entries of a context are visible to its later entries,
// to everything beside and below the context, and to beyond: the actions on a target see the context of the target.
func unused(in *input, v, beyond any, path string) {
	m, isMap := v.(map[string]any)
	if entries, ok := m["context"].([]any); ok {
		beside := without(m, "context")
		for i, e := range entries {
			entry, _ := e.(map[string]any)
			name, _ := entry["name"].(string)
			if name != "" && !reads(name, beside, entries[i+1:], beyond) {
				in.warn(fmt.Sprintf("%s.context[%d]", path, i), "remove the entry, or correct the name where it should be used",
					"context entry %s is not used", name)
			}
		}
	}
	for at, e := range value.Children(v, path) {
		if isMap && classic.HoldsObject(strings.TrimPrefix(at, path+".")) {
			continue
		}
		if isMap {
			beyond = nil
			if at == path+".targets" {
				beyond = without(m, "targets")
			}
		}
		unused(in, e, beyond, at)
	}
}

func without(m map[string]any, key string) map[string]any {
	out := maps.Clone(m)
	delete(out, key)
	return out
}

// reads reports whether one of the values may read the variable name.
func reads(name string, values ...any) bool {
	for _, v := range values {
		roots := template.Compile(v, template.Options{}).Roots()
		if slices.Contains(roots, name) || slices.Contains(roots, "*") || queried(name, v) || nested(v) {
			return true
		}
	}
	return false
}

// filled returns a query in which null, which is both a literal and a name, replaces the variables.
func filled(query string) string {
	for {
		before, rest, open := strings.Cut(query, "{{")
		_, after, closed := strings.Cut(rest, "}}")
		if !open || !closed {
			return query
		}
		query = before + "null" + after
	}
}

// nested reports whether a variable in v contains another one, so that the names that it reads are unknown.
func nested(v any) bool {
	switch v := v.(type) {
	case string:
		_, inside, open := strings.Cut(v, "{{")
		for open {
			again, end := strings.Index(inside, "{{"), strings.Index(inside, "}}")
			if again >= 0 && again < end {
				return true
			}
			_, inside, open = strings.Cut(inside, "{{")
		}
	case []any:
		return slices.ContainsFunc(v, nested)
	case map[string]any:
		for k, e := range v {
			if nested(k) || nested(e) {
				return true
			}
		}
	}
	return false
}

// queryFields are the fields that hold bare JMESPath expressions.
var queryFields = []string{"list", "jmesPath"}

func queried(name string, v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, func(e any) bool { return queried(name, e) })
	case map[string]any:
		for k, e := range v {
			if text, ok := e.(string); ok && slices.Contains(queryFields, k) {
				x, err := jmespath.Compile(filled(text))
				if err != nil && strings.Contains(text, name) || err == nil && (slices.Contains(x.Roots(), name) || slices.Contains(x.Roots(), "*")) {
					return true
				}
			}
			if queried(name, e) {
				return true
			}
		}
	}
	return false
}

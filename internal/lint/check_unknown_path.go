package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/family/classic"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/match"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/schema"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/wildcard"
)

var unknownPath = &Check{
	Name: "unknown-path",
	Doc: "A pattern, a patch or a variable names a field that none of the matched kinds has, or that a request does not have: the pattern never matches, or the variable never has a value. " +
		"Usually the name is misspelled, or the level `spec.template` is missing. The fields of custom resources are known when their definitions " +
		"are given with --crd-paths; rules for unknown kinds are not checked.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: host-network
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      pattern:
        spec:
          =(hostNetwrok): "false"
`,
	cause: true,
	policy: func(in *input) {
		for i, r := range in.rules {
			path := rulePath(i)
			types := in.matched(i)
			c := pathCheck{in: in}
			if len(types) == 0 {
				for _, k := range slices.Sorted(maps.Keys(r)) {
					c.variables(r[k], nil, path+"."+k)
				}
				continue
			}
			v, _ := r["validate"].(map[string]any)
			c.pattern(v["pattern"], types, path+".validate.pattern", "")
			if list, ok := v["anyPattern"].([]any); ok {
				for k, p := range list {
					c.pattern(p, types, fmt.Sprintf("%s.validate.anyPattern[%d]", path, k), "")
				}
			}
			c.loops(v["foreach"], types, path+".validate.foreach")
			if m, ok := r["mutate"].(map[string]any); ok && m["targets"] == nil {
				c.pattern(m["patchStrategicMerge"], types, path+".mutate.patchStrategicMerge", "")
			}
			for _, k := range slices.Sorted(maps.Keys(r)) {
				c.variables(r[k], types, path+"."+k)
			}
		}
	},
}

// matched returns the types of the kinds that the rule matches; none if one of them is unknown.
func (in *input) matched(rule int) []schema.Type {
	var out []schema.Type
	for _, f := range filtersOf(&in.policy.Spec.Rules[rule].MatchResources, "") {
		for _, kind := range f.ResourceDescription.Kinds {
			t, err := match.ParseKind(kind)
			if err != nil || t.Kind == "*" {
				return nil
			}
			found := in.kinds.Find(t.Group, t.Version, t.Kind, t.Subresource)
			if len(found) == 0 {
				return nil
			}
			for _, x := range found {
				out = append(out, x.Type)
			}
		}
	}
	return out
}

type pathCheck struct {
	in *input
	// root is the variable whose fields the types describe: request.object if it is empty, otherwise element.
	root []string
}

// below returns the part of a path below the root; ok is false for a path outside the root.
func (c *pathCheck) below(path []string) (rest []string, ok bool) {
	if len(c.root) > 0 {
		ok = len(path) > len(c.root) && slices.Equal(path[:len(c.root)], c.root)
		return path[min(len(c.root), len(path)):], ok
	}
	ok = len(path) > 2 && path[0] == "request" && (path[1] == "object" || path[1] == "oldObject")
	return path[min(2, len(path)):], ok
}

// pattern checks a pattern, or a patch, against the types; at is the place in the resource.
func (c *pathCheck) pattern(v any, types []schema.Type, path, at string) {
	switch v := v.(type) {
	case []any:
		elements := elementsOf(types)
		for i, e := range v {
			if len(elements) > 0 {
				c.pattern(e, elements, fmt.Sprintf("%s[%d]", path, i), at)
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			name := bare(key)
			if strings.Contains(name, "{{") || strings.Contains(name, "$") || wildcard.Has(name) {
				continue
			}
			below := fields(types, name)
			if len(below) == 0 {
				c.unknown(types, path+"."+key, at, name)
				continue
			}
			c.pattern(v[key], below, path+"."+key, at+"."+name)
		}
	}
}

// plainList matches the list of a loop over a field of the object, as most loops have.
var plainList = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^request\.object((?:\.[A-Za-z]+)+)(?:\[\])?$`)
})

// loops checks the entries of a loop against the type of the elements of the field that it iterates over.
func (c *pathCheck) loops(v any, types []schema.Type, path string) {
	entries, _ := v.([]any)
	for i, e := range entries {
		entry, _ := e.(map[string]any)
		list, _ := entry["list"].(string)
		field := plainList().FindStringSubmatch(strings.TrimSpace(list))
		if field == nil {
			continue
		}
		elements := types
		for _, name := range strings.Split(field[1][1:], ".") {
			elements = fields(elements, name)
		}
		if elements = elementsOf(elements); len(elements) == 0 {
			continue
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		if scope, given := entry["elementScope"].(bool); !given || scope {
			c.pattern(entry["pattern"], elements, at+".pattern", "element")
			if alternatives, ok := entry["anyPattern"].([]any); ok {
				for k, p := range alternatives {
					c.pattern(p, elements, fmt.Sprintf("%s.anyPattern[%d]", at, k), "element")
				}
			}
		}
		if entry["foreach"] == nil { // otherwise element is that of the inner loop
			inner := pathCheck{in: c.in, root: []string{"element"}}
			for _, k := range slices.Sorted(maps.Keys(entry)) {
				if k != "list" {
					inner.variables(entry[k], elements, at+"."+k)
				}
			}
		}
	}
}

func (c *pathCheck) unknown(types []schema.Type, path, at, name string) {
	where := strings.TrimPrefix(at+"."+name, ".")
	hint := ""
	if meant := nearest(name, types); meant != "" {
		hint = "did you mean " + strings.TrimPrefix(at+"."+meant, ".") + "?"
	} else if pods := fields(fields(types, "template"), "spec"); len(fields(pods, name)) > 0 {
		hint = "the fields of the Pods are below spec.template"
	}
	c.in.warn(path, hint, "none of the matched kinds has the field %s", where)
}

// standIn matches a variable whose meaning depends on its place, such as {{@}}; its expression is not a path that the author wrote.
var standIn = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{-?\s*@\s*-?\}\}`) })

// variables checks all variables in v below the root against the types.
func (c *pathCheck) variables(v any, types []schema.Type, path string) {
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, "{{") || standIn().MatchString(v) {
			return
		}
		for _, x := range template.Compile(v, template.Options{}).Expressions() {
			c.expression(x, types, path)
		}
	case []any:
		for i, e := range v {
			c.variables(e, types, fmt.Sprintf("%s[%d]", path, i))
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			c.variables(k, types, path+"."+k)
			c.variables(v[k], types, path+"."+k)
			if text, ok := v[k].(string); ok && isExpression(v, k, path) {
				if x, err := jmespath.Compile(text); err == nil {
					c.expression(x, types, path+"."+k)
				}
			}
		}
	}
}

var loopEntry = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.foreach\[\d+\]$`) })

// isExpression reports whether the key of a part of the rule holds an expression that reads variables, without braces around it.
func isExpression(in map[string]any, key, path string) bool {
	if slices.ContainsFunc(strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }), classic.HoldsObject) {
		return false
	}
	return key == "list" && loopEntry().MatchString(path) || key == "jmesPath" && strings.HasSuffix(path, ".variable") && in["value"] == nil
}

// expression checks the paths that an expression reads. types are empty if the kinds of the rule are not known.
func (c *pathCheck) expression(x *jmespath.Expr, types []schema.Type, path string) {
	for _, p := range x.Paths() {
		if rest, ok := c.below(p); ok && len(types) > 0 {
			c.path(rest, types, path)
		}
		if len(c.root) == 0 && len(p) > 1 && p[0] == "request" && !slices.Contains(policy.RequestFields, p[1]) {
			hint := ""
			if near := strict.Nearest(p[1], policy.RequestFields); near != "" {
				hint = "did you mean request." + near + "?"
			}
			c.in.warn(path, hint, "request has no field %s", p[1])
		}
	}
}

func (c *pathCheck) path(names []string, types []schema.Type, path string) {
	for i, name := range names {
		below := fields(types, name)
		if len(below) == 0 {
			if len(elementsOf(types)) > 0 {
				return // what a query does with a list cannot be checked here
			}
			c.unknown(types, path, strings.Join(slices.Concat([]string{strings.Join(c.root, ".")}, names[:i]), "."), name)
			return
		}
		types = below
	}
}

func fields(types []schema.Type, name string) []schema.Type {
	var out []schema.Type
	for _, t := range types {
		if below, ok := t.Field(name); ok {
			out = append(out, below)
		}
	}
	return out
}

func elementsOf(types []schema.Type) []schema.Type {
	var out []schema.Type
	for _, t := range types {
		if e, ok := t.Element(); ok {
			out = append(out, e)
		}
	}
	return out
}

// bare returns a key without its anchor.
func bare(key string) string {
	if !strings.HasSuffix(key, ")") {
		return key
	}
	for _, open := range []string{"(", "=(", "^(", "X(", "<(", "+(", "+(<("} {
		if inner, ok := strings.CutPrefix(key, open); ok {
			return strings.TrimRight(inner, ")")
		}
	}
	return key
}

// nearest returns the member whose name is most similar to name; empty if none is similar.
func nearest(name string, types []schema.Type) string {
	best, least := "", len(name)/3+2
	for _, t := range types {
		for _, n := range t.Names() {
			if strings.EqualFold(n, name) || len(name) > 3 && strings.HasPrefix(n, name) {
				return n
			}
			if d := strict.Distance(name, n); d < least {
				best, least = n, d
			}
		}
	}
	return best
}

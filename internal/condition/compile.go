package condition

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/strict"
	"ephor.invalid/ephor/internal/template"
)

// These texts are copied verbatim from Kyverno.
const (
	missingMember     = "entered value of `key`, `value` or `operator` is missing or misspelled"
	allowedOperations = "[CREATE, UPDATE, DELETE, CONNECT]"
)

var errMalformed = errors.New("conditions are a map with any and all, or a list")

// Compile prepares conditions. v is a map with `any` and `all`, a list of conditions (all must hold), or a list of such
// maps (all must hold); nil has no conditions and holds. path, such as spec.rules[0].preconditions, is the place of v in
// the policy; diagnostics have paths below it. The Set can be evaluated whatever the diagnostics: evaluating a condition
// with a mistake returns an error.
// The allowance is charged for what the conditions cost to compile; nil for no bound of all together.
func Compile(v any, path string, a *compilecost.Allowance) (*Set, diag.List) {
	c := &compiler{set: &Set{}, allowance: a}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		c.block(v, path)
	case []any:
		c.list(v, path)
	default:
		c.malformed(path)
	}
	return c.set, c.diags
}

type compiler struct {
	set       *Set
	diags     diag.List
	allowance *compilecost.Allowance
}

const textForm = "write any or all, with a list of conditions below it, each with key, operator and value"

func (c *compiler) malformed(path string) {
	c.diags.Errorf(path, "%s", errMalformed)
	c.diags.Hint("%s", textForm)
	c.set.blocks = append(c.set.blocks, block{all: []condition{{broken: errMalformed}}})
}

// list compiles a list: either the old form, conditions that must all hold, or a list of blocks.
func (c *compiler) list(l []any, path string) {
	blocks := false
	for _, e := range l {
		m, _ := e.(map[string]any)
		_, hasAny := m["any"]
		_, hasAll := m["all"]
		blocks = blocks || hasAny || hasAll
	}
	if !blocks {
		c.set.list = true
		c.set.blocks = []block{{all: c.conditions(l, path)}}
		return
	}
	for i, e := range l {
		at := index(path, i)
		m, ok := e.(map[string]any)
		if !ok {
			c.malformed(at)
			continue
		}
		c.block(m, at)
	}
}

func (c *compiler) block(m map[string]any, path string) {
	var b block
	for _, name := range slices.Sorted(maps.Keys(m)) {
		v := m[name]
		l, isList := v.([]any)
		at := join(path, name)
		switch {
		case name != "any" && name != "all", !isList && v != nil:
			c.diags.Errorf(at, "%s", errMalformed)
			c.diags.Hint("%s", textForm)
			b.all = append(b.all, condition{broken: errMalformed})
		case v == nil:
		case name == "any":
			b.hasAny = true
			b.any = c.conditions(l, at)
		default:
			b.all = append(b.all, c.conditions(l, at)...)
		}
	}
	c.set.blocks = append(c.set.blocks, b)
}

func (c *compiler) conditions(l []any, path string) []condition {
	out := make([]condition, len(l))
	for i, e := range l {
		out[i] = c.condition(e, index(path, i))
	}
	return out
}

func (c *compiler) condition(v any, path string) condition {
	m, _ := v.(map[string]any)
	key, hasKey := m["key"]
	value, hasValue := m["value"]
	name, hasOperator := m["operator"].(string)
	if !hasKey || !hasValue || !hasOperator {
		c.diags.Errorf(path, "%s", missingMember)
		c.diags.Hint("a condition has key, operator and value")
		return condition{broken: errors.New(missingMember)}
	}
	op := registry.byName[name]
	if op == nil {
		c.diags.Errorf(join(path, "operator"), "%s", invalidOperator())
		if op = registry.folded[strings.ToLower(name)]; op == nil {
			if near := strict.Nearest(name, registry.names); near != "" {
				c.diags.Hint("did you mean %s?", near)
			}
			return condition{broken: errors.New(invalidOperator())}
		}
		c.diags.Hint("write %s", op.Name)
	}
	if len(op.Replacements) > 0 {
		c.set.deprecated.Warnf(join(path, "operator"),
			"Operator %s has been deprecated and will be removed soon. Use these instead: %q", op.Name, op.Replacements)
		c.set.deprecated.Code(diag.DeprecatedOperator, op.Name)
		c.set.deprecated.Hint("%s asks about all elements of a list, %s about at least one", op.Replacements[0], op.Replacements[1])
	}
	c.checkOperation(key, value, path)

	out := condition{op: op, path: path, key: template.Compile(key, template.Options{Allowance: c.allowance}), value: template.Compile(value, template.Options{Allowance: c.allowance})}
	if fixed, ok := out.value.Static(); ok {
		out.operand = op.prepare(fixed, false)
	}
	c.template(out.key, join(path, "key"))
	c.template(out.value, join(path, "value"))
	if message, ok := m["message"].(string); ok && message != "" {
		out.message = template.Compile(message, template.Options{Allowance: c.allowance})
		c.template(out.message, join(path, "message"))
	}
	return out
}

// template adds a template to the set. Its diagnostics get the place of the condition.
func (c *compiler) template(t *template.Template, path string) {
	if _, static := t.Static(); static {
		return
	}
	c.set.templates = append(c.set.templates, t)
	for _, d := range t.Diags() {
		d.Path = path
		c.diags.Add(d)
	}
}

// checkOperation reports a comparison of request.operation with a value that is not an operation.
func (c *compiler) checkOperation(key, value any, path string) {
	k, ok := key.(string)
	if !ok || strings.ReplaceAll(k, " ", "") != "{{request.operation}}" {
		return
	}
	switch v := value.(type) {
	case string:
		c.checkOperationName(v, path)
	case []any:
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				c.diags.Errorf(index(join(path, "value"), i),
					"'value[%d]' found to be of the type %s. The provided values are expected to be strings", i, typeName(e))
				c.diags.Hint("write the names of operations in quotes")
				continue
			}
			c.checkOperationName(s, path)
		}
	default:
		c.diags.Errorf(join(path, "value"),
			"'value' found to be of the type %s. The provided value is expected to be a string or a list of strings", typeName(v))
		c.diags.Hint("write a list of operations, such as [CREATE, UPDATE]")
	}
}

func (c *compiler) checkOperationName(s, path string) {
	switch s {
	case "CREATE", "UPDATE", "DELETE", "CONNECT":
		return
	}
	if strings.Contains(s, "{{") {
		return // known only during evaluation
	}
	c.diags.Errorf(join(path, "value"),
		"unknown value '%s' found under the 'value' field. Only the following values are allowed: %s", s, allowedOperations)
	c.diags.Hint("write the name of an operation in capitals")
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "bool"
	case map[string]any:
		return "map"
	case []any:
		return "list"
	}
	return "number"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

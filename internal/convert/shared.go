package convert

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// entered is an entry of the context of a rule that becomes a variable: what it looks up, or a long expression.
type entered struct {
	name, text string
	used       bool
}

// longEntry is the length of an expression that becomes a variable although it looks up nothing.
const longEntry = 160

// enter notes an entry that may become a variable. Those of loops cannot: they may read the element.
func (c *converter) enter(name string, t term) {
	r := &c.policy.Spec
	if len(c.outer) > 0 || c.deleting || t.constant != nil || c.index >= len(r.Rules) || r.Rules[c.index].Mutation != nil && len(r.Rules[c.index].Mutation.Targets) > 0 {
		return
	}
	text := t.root.text
	if !lookups().MatchString(text) {
		if text = t.value().text; !lookups().MatchString(text) && len(text) < longEntry {
			return
		}
	}
	if slices.ContainsFunc(c.entered, func(e entered) bool { return e.text == text }) {
		return
	}
	c.entered = append(c.entered, entered{name: c.variableName(name), text: text})
}

// variableName returns a name for a variable that no other one has.
func (c *converter) variableName(entry string) string {
	name := notInVariables().ReplaceAllStringFunc(entry, func(s string) string { return strings.ToUpper(strings.Trim(s, "-. /")) })
	if !plain(name) || slices.Contains([]string{"object", "pod", "path", "params", "containers"}, name) {
		name = "context" + strings.ToUpper(name[:1]) + name[1:]
	}
	for slices.ContainsFunc(c.entered, func(e entered) bool { return e.name == name }) {
		name += "2"
	}
	return name
}

// notInVariables matches what names of variables may not have, and the letter after it.
var notInVariables = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_]+[A-Za-z0-9]?`) })

// inPlace returns an expression with variables in place of the entries in it.
func (c *converter) inPlace(expression string) string { return c.inPlaceOf(len(c.entered), expression) }

// inPlaceOf is inPlace for the first n entries. A later entry may contain earlier ones.
func (c *converter) inPlaceOf(n int, expression string) string {
	for i := n - 1; i >= 0; i-- {
		if e := &c.entered[i]; strings.Contains(expression, e.text) {
			expression, e.used = strings.ReplaceAll(expression, e.text, "variables."+e.name), true
		}
	}
	return aroundVariables().ReplaceAllString(expression, "$1$2")
}

// aroundVariables matches a variable in parentheses that are not those of a call.
var aroundVariables = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|[^\w.])\((variables\.\w+)\)`) })

// share makes variables of the entries that a policy uses outside of its match conditions, where they are evaluated once.
func (c *converter) share(spec map[string]any) {
	if len(c.entered) == 0 {
		return
	}
	var visit func(v any) any
	visit = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if k != "value" && k != "message" && k != "key" {
					v[k] = visit(e)
				}
			}
		case []any:
			for i, e := range v {
				v[i] = visit(e)
			}
		case string:
			return c.inPlace(v)
		}
		return v
	}
	for _, field := range []string{"validations", "auditAnnotations", "mutations", "generate", "variables"} {
		if v, ok := spec[field]; ok {
			spec[field] = visit(v)
		}
	}
	var made []any
	for i := len(c.entered) - 1; i >= 0; i-- {
		if e := &c.entered[i]; e.used {
			made = append([]any{map[string]any{"name": e.name, "expression": c.inPlaceOf(i, e.text)}}, made...)
		}
	}
	if len(made) > 0 {
		variables, _ := spec["variables"].([]any)
		spec["variables"] = append(slices.Clip(variables), made...)
	}
}

package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ephor-dev/ephor/internal/measure"
	"github.com/ephor-dev/ephor/internal/value"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// conditions converts preconditions or the conditions of deny: a map with any and all, a list of such maps, or a plain list.
func (c *converter) conditions(v any, path string) expr {
	switch v := v.(type) {
	case map[string]any:
		return c.block(v, path)
	case []any:
		out := yes
		for i, e := range v {
			m, _ := e.(map[string]any)
			at := fmt.Sprintf("%s[%d]", path, i)
			_, some := m["any"]
			_, every := m["all"]
			if some || every {
				out = and(out, c.block(m, at))
				continue
			}
			out = and(out, c.condition(m, at))
		}
		return out
	}
	c.refuse(path, "conditions are a map with any and all, or a list", "")
	return no
}

func (c *converter) block(m map[string]any, path string) expr {
	out := yes
	if some, ok := m["any"].([]any); ok && len(some) > 0 {
		var alternatives []expr
		for i, e := range some {
			one, _ := e.(map[string]any)
			alternatives = append(alternatives, c.condition(one, fmt.Sprintf("%s.any[%d]", path, i)))
		}
		out = or(alternatives...)
	}
	if every, ok := m["all"].([]any); ok {
		for i, e := range every {
			one, _ := e.(map[string]any)
			out = and(out, c.condition(one, fmt.Sprintf("%s.all[%d]", path, i)))
		}
	}
	return out
}

// condition converts one condition: key, operator, value.
func (c *converter) condition(m map[string]any, path string) expr {
	operator, _ := m["operator"].(string)
	if message, _ := m["message"].(string); message != "" {
		c.note(path+".message", "the message of a single condition is left out", "write it as the message of a validation of its own")
	}
	key, ok := c.operand(m["key"], path+".key")
	if !ok {
		return no
	}
	switch operator {
	case "Equals", "Equal":
		return c.equal(key, m["value"], path)
	case "NotEquals", "NotEqual":
		return not(c.equal(key, m["value"], path))
	case "GreaterThan":
		return c.order(key, ">", m["value"], path)
	case "GreaterThanOrEquals":
		return c.order(key, ">=", m["value"], path)
	case "LessThan":
		return c.order(key, "<", m["value"], path)
	case "LessThanOrEquals":
		return c.order(key, "<=", m["value"], path)
	case "AnyIn", "AllIn", "AnyNotIn", "AllNotIn":
		return c.membership(key, operator, m["value"], path)
	case "In", "NotIn":
		if key.shape == textShape {
			return c.membership(key, map[string]string{"In": "AnyIn", "NotIn": "AllNotIn"}[operator], m["value"], path)
		}
		c.refuse(path+".operator", "the deprecated operator "+operator+" means one thing for text and another for lists", "use AnyIn, AllIn, AnyNotIn or AllNotIn")
		return no
	}
	c.refuse(path+".operator", "the operator "+operator+" is not converted", "")
	return no
}

// inner matches a quoted variable inside an expression, where it is a path.
var inner = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'\{\{\s*([A-Za-z0-9_.]+)\s*\}\}'`) })

var wholeVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\{\{([^{}]*)\}\}$`) })

// operand converts a key or value that may hold variables.
func (c *converter) operand(v any, path string) (term, bool) {
	switch v := v.(type) {
	case string:
		v = inner().ReplaceAllString(v, "$1")
		if m := wholeVariable().FindStringSubmatch(strings.TrimSpace(v)); m != nil {
			return c.search(strings.TrimSpace(m[1]), path)
		}
		if !strings.Contains(v, "{{") {
			return term{expr: member(text(v)), shape: textShape}, true
		}
		parts, ok := c.texts(v, path)
		return term{expr: expr{strings.Join(parts, " + "), bindsComparison}, shape: textShape}, ok
	case bool:
		return term{expr: member(strconv.FormatBool(v)), shape: boolShape}, true
	case int64:
		return term{expr: member(strconv.FormatInt(v, 10)), shape: numberShape}, true
	}
	c.refuse(path, value.TypeName(v)+" as a key is not converted", "")
	return term{}, false
}

var variables = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{([^{}]*)\}\}`) })

// texts converts text with variables into the operands of a concatenation.
func (c *converter) texts(s, path string) ([]string, bool) {
	if plain := variables().ReplaceAllString(s, ""); strings.Contains(plain, "{{") || strings.Contains(plain, "}}") {
		c.refuse(path, "a variable inside a variable, or with braces, is not converted", "")
		return nil, false
	}
	var parts []string
	rest := s
	for _, at := range variables().FindAllStringSubmatchIndex(s, -1) {
		if before := s[len(s)-len(rest) : at[0]]; before != "" {
			parts = append(parts, text(before))
		}
		v, ok := c.search(strings.TrimSpace(s[at[2]:at[3]]), path)
		if !ok {
			return nil, false
		}
		if v.shape == textShape && len(v.keys) == 0 {
			parts = append(parts, v.within(bindsComparison))
		} else {
			parts = append(parts, "string("+v.text+")")
		}
		rest = s[at[1]:]
	}
	if rest != "" {
		parts = append(parts, text(rest))
	}
	return parts, true
}

// literal reports whether a value of a condition is literal; it may contain operators.
func literal(v any) bool {
	s, isText := v.(string)
	return !isText || !strings.Contains(s, "{{")
}

// equal converts Equals.
func (c *converter) equal(key term, v any, path string) expr {
	path += ".value"
	if !literal(v) {
		other, ok := c.operand(v, path)
		if !ok {
			return no
		}
		return comparison(key.within(bindsUnary) + " == " + other.within(bindsUnary))
	}
	switch v := v.(type) {
	case string:
		if key.shape == boolShape {
			return comparison(key.within(bindsUnary) + " == " + text(v)) // of another type: never
		}
		return c.same(key.expr, v, path)
	case bool:
		if key.shape == boolShape {
			if v {
				return key.expr
			}
			return not(key.expr)
		}
		return comparison(key.within(bindsUnary) + " == " + strconv.FormatBool(v))
	case int64:
		if key.shape == numberShape {
			return comparison(key.within(bindsUnary) + " == " + strconv.FormatInt(v, 10))
		}
		return number(key.expr, strconv.FormatInt(v, 10))
	case []any:
		if texts, ok := textList(v); ok && !slices.ContainsFunc(texts, wildcard.Has) {
			return comparison(key.within(bindsUnary) + " == " + list(texts))
		}
	}
	c.refuse(path, "Equals with "+value.TypeName(v)+" is not converted", "")
	return no
}

func textList(l []any) ([]string, bool) {
	out := make([]string, len(l))
	for i, e := range l {
		s, ok := e.(string)
		if !ok || strings.Contains(s, "{{") {
			return nil, false
		}
		out[i] = s
	}
	return out, true
}

// order converts GreaterThan and its kin.
func (c *converter) order(key term, operator string, v any, path string) expr {
	path += ".value"
	if key.shape == durationShape {
		bound, _ := v.(string)
		if d, ok := measure.NewBound(bound).Duration(); ok {
			return comparison(key.within(bindsUnary) + " " + operator + " duration(" + text(d.String()) + ")")
		}
		c.refuse(path, "a time is compared with what is no duration", "")
		return no
	}
	switch v := v.(type) {
	case int64:
		if key.shape == numberShape {
			return comparison(key.within(bindsUnary) + " " + operator + " " + strconv.FormatInt(v, 10))
		}
		return c.ordered(key.expr, operator, strconv.FormatInt(v, 10), path)
	case string:
		if literal(v) {
			return c.ordered(key.expr, operator, v, path)
		}
	}
	c.refuse(path, "an order with a value that is not written out is not converted", "")
	return no
}

// membership converts AnyIn, AllIn, AnyNotIn and AllNotIn.
func (c *converter) membership(key term, operator string, v any, path string) expr {
	path += ".value"
	var among func(expr) expr
	switch v := v.(type) {
	case []any:
		texts, ok := textList(v)
		if !ok {
			c.refuse(path, "a list with variables, numbers or other values that are no text is not converted", "")
			return no
		}
		digits := slices.ContainsFunc(texts, func(s string) bool { return !letters().MatchString(s) })
		among = func(x expr) expr {
			if digits && key.shape != textShape { // numbers are compared by their text
				x = member("string(" + x.text + ")")
			}
			return c.anyGlob(x, texts)
		}
	case string:
		if !literal(v) {
			other, ok := c.operand(v, path)
			if !ok {
				return no
			}
			if other.shape != listShape {
				c.refuse(path, "a variable that may be text or a list is not converted here", "")
				return no
			}
			among = func(x expr) expr { return comparison(x.text + " in " + other.within(bindsUnary)) }
			break
		}
		if _, isRange := measure.ParseRange(v); isRange || strings.HasPrefix(strings.TrimSpace(v), "[") {
			c.refuse(path, "a range, or a list inside text, is not converted", "write it out")
			return no
		}
		among = func(x expr) expr { return c.anyGlob(x, []string{v}) }
	default:
		c.refuse(path, value.TypeName(v)+" as a value is not converted", "")
		return no
	}
	if key.shape == textShape {
		one := among(key.expr)
		if strings.HasSuffix(operator, "NotIn") {
			return not(one)
		}
		return one
	}
	all := key.expr
	if key.shape != listShape { // one value, or a list of them
		all = elements(key.expr)
	}
	x := c.variable()
	one := among(member(x))
	switch operator {
	case "AnyIn":
		return all.macro("exists", x, one)
	case "AllIn":
		return all.macro("all", x, one)
	case "AnyNotIn":
		return all.macro("exists", x, not(one))
	}
	return all.macro("all", x, not(one))
}

package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// conditions converts preconditions or deny conditions: a map with any and all, a list of such maps, or a plain list.
func (c *converter) conditions(v any, path string) expr {
	switch v := v.(type) {
	case map[string]any:
		return c.block(v, path, false)
	case []any:
		var out []expr
		var fallible []bool
		for i, e := range v {
			m, _ := e.(map[string]any)
			at := fmt.Sprintf("%s[%d]", path, i)
			_, some := m["any"]
			_, every := m["all"]
			if some || every {
				out, fallible = append(out, c.block(m, at, false)), append(fallible, anyFails(m["any"]) || anyFails(m["all"]))
				continue
			}
			out, fallible = append(out, c.condition(m, at)), append(fallible, mayFail(m))
		}
		return inOrder(out, fallible, true)
	}
	c.refuse(path, "conditions must be a map with any and all, or a list", "")
	return no
}

// denied converts the conditions of deny, of which an error is a violation, as true is.
func (c *converter) denied(v any, path string) expr {
	if m, ok := v.(map[string]any); ok {
		return c.block(m, path, true)
	}
	return c.conditions(v, path)
}

// block converts a map with any and all. errorIsTrue: an error of the block has the effect of true.
func (c *converter) block(m map[string]any, path string, errorIsTrue bool) expr {
	group := func(name string) (out []expr, fallible []bool) {
		all, _ := m[name].([]any)
		for i, e := range all {
			one, _ := e.(map[string]any)
			out, fallible = append(out, c.condition(one, fmt.Sprintf("%s.%s[%d]", path, name, i))), append(fallible, mayFail(one))
		}
		return out, fallible
	}
	some, someFail := group("any")
	all, allFail := group("all")
	every := inOrder(all, allFail, true)
	if len(some) == 0 {
		return every
	}
	if len(all) == 0 && errorIsTrue {
		return or(some...)
	}
	either := inOrder(some, someFail, false)
	switch {
	case !slices.Contains(someFail, true) || either == yes || every == yes:
		return and(either, every)
	case !slices.Contains(allFail, true):
		return expr{either.within(bindsOr) + " ? " + every.within(bindsOr) + " : false", bindsTernary}
	}
	// The conditions of all are evaluated for their errors, too.
	return expr{either.within(bindsOr) + " ? " + every.within(bindsOr) + " : " + every.within(bindsOr) + " ? false : false", bindsTernary}
}

// inOrder joins conditions by and, or by or. As in the classic language, an error of one is not made up for by those that follow, as && and
// || do.
func inOrder(all []expr, fallible []bool, every bool) expr {
	if len(all) == 0 {
		return yes
	}
	out := all[len(all)-1]
	for i := len(all) - 2; i >= 0; i-- {
		switch {
		case fallible[i] && every && out != yes:
			out = expr{all[i].within(bindsOr) + " ? " + out.within(bindsOr) + " : false", bindsTernary}
		case fallible[i] && !every && out != no:
			out = expr{all[i].within(bindsOr) + " ? true : " + out.within(bindsOr), bindsTernary}
		case every:
			out = and(all[i], out)
		default:
			out = or(all[i], out)
		}
	}
	return out
}

// mayFail reports whether the key of a condition is a variable that may be missing, without a default.
func mayFail(condition map[string]any) bool {
	key, _ := condition["key"].(string)
	return strings.Contains(key, "{{") && !strings.Contains(key, "||") && !always().MatchString(key)
}

func anyFails(conditions any) bool {
	all, _ := conditions.([]any)
	return slices.ContainsFunc(all, func(e any) bool { m, _ := e.(map[string]any); return mayFail(m) })
}

// always matches variables that every object or request has.
var always = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^\{\{\s*(request\.(operation|namespace|name|userInfo\.username|object\.(kind|metadata\.(name|namespace)))|time_now_utc\(\))\s*\}\}$`)
})

// condition converts one condition: key, operator, value.
func (c *converter) condition(m map[string]any, path string) expr {
	operator, _ := m["operator"].(string)
	if message, _ := m["message"].(string); message != "" {
		c.note(path+".message", "the message of a single condition is omitted", "write the condition as a separate validation with a message")
	}
	key, ok := c.operand(m["key"], path+".key")
	if !ok {
		return no
	}
	switch operator {
	case "Equals", "Equal":
		return c.equal(key, m["value"], path)
	case "NotEquals", "NotEqual":
		if s, ok := m["value"].(string); ok && wildcard.Has(s) && quantities().MatchString(s) { // a key that is a quantity equals quantities only
			return or(not(c.equal(key, s, path)), member("isQuantity(string("+key.text+"))"))
		}
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
		c.refuse(path+".operator", "the deprecated operator "+operator+" has different meanings for strings and for lists", "use AnyIn, AllIn, AnyNotIn or AllNotIn")
		return no
	}
	c.refuse(path+".operator", "the operator "+operator+" is not converted", "")
	return no
}

// quantities matches patterns that match some quantity.
var quantities = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+0-9.*?eEinumkKMGTP]*$`) })

// inner matches a quoted variable inside an expression, where the variable becomes a path.
var inner = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`'\{\{\s*([A-Za-z0-9_.]+)\s*\}\}'`) })

var wholeVariable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\{\{([^{}]*)\}\}$`) })

// operand converts a key or a value, which may contain variables.
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
		c.refuse(path, "a nested variable, or a variable that contains braces, is not converted", "")
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
		if v.shape == listShape {
			c.refuse(path, "a list inside a text is not converted", "")
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

// literal reports whether the value of a condition is literal. A literal value may contain operators.
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
			return comparison(key.within(bindsUnary) + " == " + text(v)) // false for a key of another type
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

// order converts GreaterThan and the other operators that compare order.
func (c *converter) order(key term, operator string, v any, path string) expr {
	path += ".value"
	if key.shape == durationShape {
		bound, _ := v.(string)
		if d, ok := measure.NewBound(bound).Duration(); ok {
			return comparison(key.within(bindsUnary) + " " + operator + " duration(" + text(d.String()) + ")")
		}
		c.refuse(path, "a time is compared with something that is not a duration", "")
		return no
	}
	switch v := v.(type) {
	case int64:
		if key.shape == numberShape {
			return comparison(key.within(bindsUnary) + " " + operator + " " + strconv.FormatInt(v, 10))
		}
		return c.ordered(key.expr, operator, strconv.FormatInt(v, 10), path)
	case string:
		if b := measure.NewBound(v); literal(v) {
			_, quantity := b.Quantity()
			if d, ok := b.Duration(); ok && !quantity {
				return longer(key.expr, operator, text(d.String()))
			}
			return c.ordered(key.expr, operator, v, path)
		}
	}
	c.refuse(path, "a greater or less comparison with a value that is not a constant is not converted", "")
	return no
}

// longer compares durations. A number counts as seconds, and what is no duration fulfils no order.
func longer(key expr, operator, bound string) expr {
	value := "string(" + key.text + ")"
	return or(
		and(member(value+".matches('^-?[0-9]+([.][0-9]+)?$')"), comparison("duration("+value+" + 's') "+operator+" duration("+bound+")")),
		and(member(value+".matches('^[-+]?([0-9]+([.][0-9]*)?(ns|us|ms|s|m|h))+$')"), comparison("duration("+value+") "+operator+" duration("+bound+")")),
	)
}

// membership converts AnyIn, AllIn, AnyNotIn and AllNotIn.
func (c *converter) membership(key term, operator string, v any, path string) expr {
	path += ".value"
	var among func(expr) expr
	switch v := v.(type) {
	case []any:
		texts, ok := textList(v)
		if !ok {
			c.refuse(path, "a list with variables, numbers or other values that are not strings is not converted", "")
			return no
		}
		digits := slices.ContainsFunc(texts, func(s string) bool { return !letters().MatchString(s) })
		among = func(x expr) expr {
			if digits && key.shape != textShape { // numbers are compared as text
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
				c.refuse(path, "a variable that may be a string or a list is not converted in this place", "")
				return no
			}
			among = func(x expr) expr { return comparison(x.text + " in " + other.within(bindsUnary)) }
			break
		}
		if _, isRange := measure.ParseRange(v); isRange || strings.HasPrefix(strings.TrimSpace(v), "[") {
			c.refuse(path, "a range, or a list inside a string, is not converted", "list the values, or use comparison operators")
			return no
		}
		among = func(x expr) expr { return c.anyGlob(x, []string{v}) }
	default:
		c.refuse(path, value.TypeName(v)+" as a value is not converted", "")
		return no
	}
	if key.shape == textShape && !key.maybeList {
		one := among(key.expr)
		if strings.HasSuffix(operator, "NotIn") {
			return not(one)
		}
		return one
	}
	all := key.expr
	if key.shape != listShape { // the key may be one value or a list of values
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

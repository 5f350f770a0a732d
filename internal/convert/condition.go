package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

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

// told returns the messages of the conditions of deny as parts of a text, each of which begins with a separator or is empty: that of the first condition of
// any that holds, and those of all.
func (c *converter) told(v any, path string) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		return c.toldBy(v, path)
	case []any:
		for i, e := range v {
			at := fmt.Sprintf("%s[%d]", path, i)
			m, _ := e.(map[string]any)
			_, some := m["any"]
			_, every := m["all"]
			if some || every {
				out = append(out, c.toldBy(m, at)...)
			} else if said := c.said(m, at); said != "" {
				out = append(out, said)
			}
		}
	}
	return out
}

// toldBy returns the messages of a map with any and all.
func (c *converter) toldBy(m map[string]any, path string) (out []string) {
	some, _ := m["any"].([]any)
	first := "''"
	for i, e := range slices.Backward(some) {
		one, _ := e.(map[string]any)
		at := fmt.Sprintf("%s.any[%d]", path, i)
		if said := c.said(one, at); said != "" || first != "''" {
			if said == "" {
				said = "''"
			}
			first = c.condition(one, at).within(bindsOr) + " ? " + said + " : " + first
		}
	}
	if first != "''" {
		out = append(out, "("+first+")")
	}
	all, _ := m["all"].([]any)
	for i, e := range all {
		one, _ := e.(map[string]any)
		if said := c.said(one, fmt.Sprintf("%s.all[%d]", path, i)); said != "" {
			out = append(out, said)
		}
	}
	return out
}

// said returns the message of a condition after a separator; empty if it has none.
func (c *converter) said(m map[string]any, path string) string {
	message, _ := m["message"].(string)
	if message == "" {
		return ""
	}
	parts, ok := c.texts("; "+message, path+".message")
	if !ok {
		return ""
	}
	return strings.Join(parts, " + ")
}

// block converts a map with any and all. errorIsTrue: an error of the block has the effect of true.
func (c *converter) block(m map[string]any, path string, errorIsTrue bool) expr {
	group := func(name string) (out []expr, fallible []bool) {
		all, _ := m[name].([]any)
		for i, e := range all {
			one, _ := e.(map[string]any)
			made := c.condition(one, fmt.Sprintf("%s.%s[%d]", path, name, i))
			out, fallible = append(out, made), append(fallible, (mayFail(one) || lookups().MatchString(made.text)) && c.heard == nil)
		}
		return out, fallible
	}
	some, someFail := group("any")
	all, allFail := group("all")
	every := inOrder(all, allFail, true)
	if len(some) == 0 {
		return every
	}
	if len(all) == 0 && errorIsTrue && !(c.tolerant && c.enforced) { // of an update, a violation may be tolerated, and an error is not
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

// mayFail reports whether a variable of a condition may be missing, without a default, or calls a function.
func mayFail(condition map[string]any) bool {
	for _, side := range []string{"key", "value"} {
		text, _ := condition[side].(string)
		if strings.Contains(text, "{{") && (!strings.Contains(text, "||") || strings.Contains(text, "(")) && !always().MatchString(text) {
			return true
		}
	}
	return false
}

// lookups matches expressions that ask the cluster, a registry or a service.
var lookups = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(resource|http|globalContext|image)\.(get|list|post|client|getMetadata)\(`)
})

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
	before := len(c.demands)
	key, ok := c.operand(m["key"], path+".key")
	if !ok {
		return no
	}
	out := c.compared(key, operator, m["value"], path)
	if (out == yes || out == no) && mayFail(m) { // a comparison with a known result still evaluates its key
		out = read(key, out)
	}
	for _, d := range c.demands[before:] { // a variable inside another one is an error if it is missing, even if the other one has an empty list
		if source, _ := m["key"].(string); !loops().MatchString(out.text) && !strings.Contains(source, "&&") {
			continue
		}
		out = expr{d + " != null ? " + out.within(bindsOr) + " : false", bindsTernary}
	}
	c.demands = c.demands[:before]
	if c.heard != nil {
		out = and(append(*c.heard, out)...)
		*c.heard = nil
	}
	return out
}

// read returns a known result, after a value was read: an error if it is missing.
func read(t term, result expr) expr {
	reads := and(t.filled(), comparison("dyn("+t.value().text+") == null"))
	return expr{reads.within(bindsOr) + " ? " + result.text + " : " + result.text, bindsTernary}
}

// loops matches the loops over lists.
var loops = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\.(map|filter|all|exists)\(`) })

// compared converts a comparison of a key with a value. No comparison of null holds.
func (c *converter) compared(key term, operator string, v any, path string) expr {
	given := key.filled()
	switch operator {
	case "Equals", "Equal":
		return and(given, c.equal(key, v, path))
	case "NotEquals", "NotEqual":
		if s, ok := v.(string); ok && wildcard.Has(s) && quantities().MatchString(s) { // a key that is a quantity equals quantities only
			return and(given, or(not(c.equal(key, s, path)), member("isQuantity(string("+key.value().text+"))")))
		}
		return and(given, not(c.equal(key, v, path)))
	case "GreaterThan":
		return and(given, c.order(key, ">", v, path))
	case "DurationGreaterThan":
		return and(given, c.orderOfDurations(key, ">", v, path))
	case "GreaterThanOrEquals":
		return and(given, c.order(key, ">=", v, path))
	case "DurationGreaterThanOrEquals":
		return and(given, c.orderOfDurations(key, ">=", v, path))
	case "LessThan":
		return and(given, c.order(key, "<", v, path))
	case "DurationLessThan":
		return and(given, c.orderOfDurations(key, "<", v, path))
	case "LessThanOrEquals":
		return and(given, c.order(key, "<=", v, path))
	case "DurationLessThanOrEquals":
		return and(given, c.orderOfDurations(key, "<=", v, path))
	case "AnyIn", "AllIn", "AnyNotIn", "AllNotIn":
		return c.membership(key, operator, v, path)
	case "In", "NotIn":
		if list, exact := exactList(v); key.shape == listShape && !key.maybeList && exact {
			return and(given, c.amongExactly(key, list, operator == "NotIn"))
		}
		if operator == "NotIn" {
			if oneText(v) { // nothing is outside of it
				return no
			}
			return c.membership(key, "AnyNotIn", v, path)
		}
		if oneText(v) { // a list is not in it
			switch {
			case key.shape == listShape:
				return no
			case key.shape == anyShape || key.maybeList:
				return and(given, comparison("type("+key.value().text+") != list"), c.anyGlob(member("string("+key.value().text+")"), []string{v.(string)}))
			}
			return and(given, c.anyGlob(asTexts(key.value().atom(), key), []string{v.(string)})) // a range is a text here
		}
		return c.membership(key, "AllIn", v, path)
	}
	c.refuse(path+".operator", "the operator "+operator+" is not converted", "")
	return no
}

// oneText reports whether a value is a literal text that is no list in JSON.
func oneText(v any) bool {
	s, ok := v.(string)
	return ok && !strings.Contains(s, "{{") && !strings.HasPrefix(strings.TrimSpace(s), "[")
}

// quantities matches patterns that match some quantity.
var quantities = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+0-9.*?eEinumkKMGTP]*$`) })

// isLiteralValue reports whether the value of a condition is literal. A literal value may contain operators.
func isLiteralValue(v any) bool {
	switch v := v.(type) {
	case string:
		return !strings.Contains(v, "{{")
	case []any:
		return !slices.ContainsFunc(v, func(e any) bool { return !isLiteralValue(e) })
	}
	return true
}

// equal converts Equals.
func (c *converter) equal(key term, v any, path string) expr {
	path += ".value"
	at := key.value().atom()
	if !isLiteralValue(v) {
		other, ok := c.operand(v, path)
		if !ok {
			return no
		}
		if key.shape != other.shape {
			at = dynamic(key.value())
		}
		return and(other.filled(), comparison(at.within(bindsUnary)+" == "+other.value().within(bindsUnary)))
	}
	switch v := v.(type) {
	case string:
		switch key.shape {
		case boolShape:
			return comparison(dynamic(key.value()).within(bindsUnary) + " == " + text(v)) // false for a key of another type
		case numberShape:
			if !wholeNumber().MatchString(v) {
				return no
			}
			return comparison(numeric(key, true).within(bindsUnary) + " == " + v)
		case listShape:
			if len(key.keys) == 0 {
				return no
			}
		case durationShape, quantityShape:
			return c.order(key, "==", v, strings.TrimSuffix(path, ".value"))
		}
		if wholeNumber().MatchString(v) || v == "true" || v == "false" {
			at = dynamic(key.value())
		}
		return c.same(at, v, path)
	case bool:
		if key.shape == boolShape && !key.maybeList {
			if v && strings.HasSuffix(at.text, ".orValue(false)") { // of type dyn
				return comparison(at.text + " == true")
			}
			if v {
				return at
			}
			return not(at)
		}
		if key.shape == textShape && !key.maybeList {
			return no
		}
		return comparison(dynamic(key.value()).within(bindsUnary) + " == " + strconv.FormatBool(v))
	case int64, float64: // a text equals no number
		_, whole := v.(int64)
		return comparison(numeric(key, whole).within(bindsUnary) + " == " + value.JSON(v))
	case nil:
		return no
	case []any, map[string]any:
		other, ok := c.operand(v, path)
		if !ok {
			return no
		}
		return comparison("dyn(" + at.text + ") == " + other.text)
	}
	c.refuse(path, "Equals with "+value.TypeName(v)+" is not converted", "")
	return no
}

// dynamic returns a value that can be compared with one of another type. Only fields, also with a default, have no type that is known before the
// evaluation.
func dynamic(v expr) expr {
	if v.binds == bindsMember && untyped().MatchString(v.text) {
		return v
	}
	return member("dyn(" + v.text + ")")
}

// numeric returns a key that can be compared with a number, which is whole or not.
func numeric(key term, whole bool) expr {
	if v := key.value(); whole && v.binds == bindsMember && strings.HasPrefix(v.text, "size(") { // a whole number, too
		return v
	}
	return dynamic(key.value())
}

// untyped matches a path, and what ends with a field.
var untyped = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(paths + `|\.\w+$`) })

// paths is a regular expression of paths, also with a default.
const paths = `^\w+(\.\??\w+|\[\??('[^']*'|\w+)\])*(\.orValue\(('[^']*'|\w+|\[\]|\{\})\))?$`

package convert

import (
	"regexp"
	"strconv"
	"sync"

	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/value"
)

// order converts GreaterThan and the other operators that compare order.
func (c *converter) order(key term, operator string, v any, path string) expr {
	path += ".value"
	at := key.value().atom()
	if s, ok := v.(string); ok {
		if name, whole := wholeVariable(s); whole && c.entries[name].constant != nil {
			v = c.entries[name].constant
		}
	}
	switch key.shape {
	case durationShape:
		bound, _ := v.(string)
		if d, ok := measure.NewBound(bound).Duration(); ok {
			return comparison(at.within(bindsUnary) + " " + operator + " duration(" + text(d.String()) + ")")
		}
		c.refuse(path, "a time is compared with something that is not a duration", "")
		return no
	case quantityShape:
		bound, _ := v.(string)
		if _, ok := measure.NewBound(bound).Quantity(); ok {
			return comparison(at.within(bindsMember) + ".compareTo(quantity(" + text(bound) + ")) " + operator + " 0")
		}
		if isLiteralValue(v) {
			return no // a quantity is compared with texts only
		}
	case listShape:
		if len(key.keys) == 0 {
			return no
		}
	}
	switch v := v.(type) {
	case int64:
		if key.shape == numberShape {
			return comparison(at.within(bindsUnary) + " " + operator + " " + strconv.FormatInt(v, 10))
		}
		return beyond(at, operator, strconv.FormatInt(v, 10))
	case float64:
		if key.shape == numberShape {
			return comparison(at.within(bindsUnary) + " " + operator + " " + strconv.FormatFloat(v, 'f', -1, 64))
		}
		return beyond(at, operator, strconv.FormatFloat(v, 'f', -1, 64))
	case string:
		if !isLiteralValue(v) {
			return c.orderOf(key, operator, v, path)
		}
		b := measure.NewBound(v)
		_, quantity := b.Quantity()
		if d, ok := b.Duration(); ok && (!quantity || key.shape == numberShape && quantity && !plainNumber().MatchString(v)) {
			return longer(at, operator, text(d.String()))
		}
		if key.shape == numberShape {
			if f, ok := measure.Number(v); ok {
				return comparison(at.within(bindsUnary) + " " + operator + " " + strconv.FormatFloat(f, 'f', -1, 64))
			}
			return no
		}
		if !quantity && version().MatchString(v) {
			of := "string(" + at.text + ")"
			return and(member("isSemver("+of+")"), comparison("semver("+of+").compareTo(semver("+text(v)+")) "+operator+" 0"))
		}
		if !quantity {
			return no // a word has no order
		}
		return c.ordered(at, operator, v, path)
	case bool, nil, []any, map[string]any:
		return no
	}
	c.refuse(path, "a greater or less comparison with a value that is not a constant is not converted", "")
	return no
}

// plainNumber matches numbers without a unit.
var plainNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+0-9.eE]+$`) })

// orderOfDurations converts DurationGreaterThan and its like: a number counts as seconds, a text without a unit is no duration.
func (c *converter) orderOfDurations(key term, operator string, v any, path string) expr {
	var bound string
	switch v := v.(type) {
	case int64, float64:
		bound = value.JSON(v) + "s"
	case string:
		if isLiteralValue(v) {
			bound = v
		}
	}
	d, ok := measure.NewBound(bound).Duration()
	at := key.value().atom()
	asText := func() expr {
		out := durationText(at, operator, text(d.String()))
		if map[string]bool{">": 0 > d, ">=": 0 >= d, "<": 0 < d, "<=": 0 <= d}[operator] { // the only duration without a unit
			out = or(comparison(at.within(bindsUnary)+" == '0'"), out)
		}
		return out
	}
	switch {
	case !isLiteralValue(v) || key.shape == durationShape:
		return c.order(key, operator, v, path)
	case !ok || key.shape == boolShape || key.shape == listShape:
		return no
	case key.shape == numberShape:
		return longer(at, operator, text(d.String()))
	case key.shape == textShape && !key.maybeList:
		return asText()
	}
	seconds := comparison("duration(string(" + at.text + ") + 's') " + operator + " duration(" + text(d.String()) + ")")
	return or(and(isNumber(at), seconds), asText())
}

// isNumber returns the condition that a value is a number.
func isNumber(v expr) expr {
	return or(comparison("type("+v.text+") == int"), comparison("type("+v.text+") == double"))
}

// version matches semantic versions.
var version = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`) })

// orderOf compares a key with a variable, as numbers or as quantities.
func (c *converter) orderOf(key term, operator string, v, path string) expr {
	other, ok := c.operand(v, path)
	if !ok {
		return no
	}
	given := other.filled()
	a, b := key.value(), other.value()
	if key.shape == numberShape && other.shape == numberShape && !key.maybeList && !other.maybeList {
		return and(given, comparison(a.within(bindsUnary)+" "+operator+" "+b.within(bindsUnary)))
	}
	if key.shape == durationShape || other.shape == durationShape {
		c.refuse(path, "a time is compared with a variable", "")
		return no
	}
	quantity := func(t term) (expr, expr) {
		if t.shape == quantityShape {
			return yes, t.value()
		}
		s := "string(" + t.value().text + ")"
		return member("isQuantity(" + s + ")"), member("quantity(" + s + ")")
	}
	firstIs, first := quantity(key)
	secondIs, second := quantity(other)
	compared := and(secondIs, comparison(first.within(bindsMember)+".compareTo("+second.text+") "+operator+" 0"))
	otherwise := no
	if other.present() != yes { // the value is read in any case
		otherwise = read(other, no)
	}
	if lookups().MatchString(first.text) || key.present() != yes || otherwise != no { // its error is one of the condition
		return and(given, expr{firstIs.within(bindsOr) + " ? " + compared.within(bindsOr) + " : " + otherwise.within(bindsTernary), bindsTernary})
	}
	return and(given, firstIs, compared)
}

// beyond compares a value of any type with a number: a number, also as a text, or a duration, of which the number counts the seconds. Quantities
// with a unit have no order with numbers.
func beyond(key expr, operator, bound string) expr {
	value := "string(" + key.text + ")"
	return or(
		and(member(value+".matches('^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?$')"), comparison("double("+value+") "+operator+" "+bound)),
		and(member(value+".matches("+text(durations)+")"), comparison("duration("+value+") "+operator+" duration("+text(bound+"s")+")")),
	)
}

// longer compares durations. A number counts as seconds, and what is no duration fulfils no order.
func longer(key expr, operator, bound string) expr {
	value := "string(" + key.text + ")"
	return or(
		and(member(value+".matches('^-?[0-9]+([.][0-9]+)?$')"), comparison("duration("+value+" + 's') "+operator+" duration("+bound+")")),
		durationText(key, operator, bound),
	)
}

// durationText compares the text of a duration with another duration.
func durationText(key expr, operator, bound string) expr {
	value := "string(" + key.text + ")"
	return and(member(value+".matches("+text(durations)+")"), comparison("duration("+value+") "+operator+" duration("+bound+")"))
}

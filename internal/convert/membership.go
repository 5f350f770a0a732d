package convert

import (
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// among is a value of AnyIn, AllIn, AnyNotIn or AllNotIn.
type among struct {
	// holds returns the condition that an element of the key is in the value.
	holds func(x expr) expr
	// outside returns the condition that an element of a list is outside of it for AnyNotIn; nil if it is the negation of holds.
	outside func(x expr) expr
	// scalarOnly: of lists, only one with a single element can be in the value, and none is outside.
	scalarOnly bool
	// given is the condition that the value is not null; zero for none.
	given expr
	// listsOnly: a key that is no list is neither in the value nor outside.
	listsOnly bool
}

// membership converts AnyIn, AllIn, AnyNotIn and AllNotIn.
func (c *converter) membership(key term, operator string, v any, path string) expr {
	path += ".value"
	a, ok := c.among(key, v, path)
	if !ok {
		return no
	}
	given := and(key.filled(), orYes(a.given))
	outside := strings.HasSuffix(operator, "NotIn")
	scalar := (key.shape == textShape || key.shape == numberShape || key.shape == boolShape) && !key.maybeList
	switch {
	case a.listsOnly && (scalar || strings.HasPrefix(operator, "All")):
		return no
	case a.scalarOnly && outside:
		return no
	case scalar:
		one := a.holds(key.value().atom())
		if outside {
			one = not(one)
		}
		return and(given, one)
	}
	all := key.expr // the key may be one value or a list of values
	if key.shape != listShape {
		all = elements(key.value())
	}
	x := c.variableOf(all)
	holds := a.holds(member(x))
	var out expr
	switch operator {
	case "AnyIn":
		out = all.macro("exists", x, holds)
		if key.strict != (expr{}) {
			given = orYes(a.given) // an empty list has no such element, either
		}
	case "AllIn":
		out = all.macro("all", x, holds)
	case "AnyNotIn":
		apart := not(holds)
		if a.outside != nil {
			apart = a.outside(member(x))
		}
		out = all.macro("exists", x, apart)
		if key.strict != (expr{}) {
			given = orYes(a.given)
		}
	default:
		out = all.macro("all", x, not(holds))
	}
	if a.scalarOnly {
		out = and(comparison("size("+all.text+") == 1"), out)
	}
	if a.listsOnly && key.shape != listShape {
		out = and(comparison("type("+key.value().text+") == list"), out)
	}
	return and(given, out)
}

// exactList returns the literal values among which In and NotIn look for the elements of a list: nil if no list is in them or outside, because
// they are not all texts. It reports false for a value with variables, and for a text.
func exactList(v any) (list []any, ok bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			s, isText := e.(string)
			if !isText {
				return nil, isLiteralValue(e)
			}
			if strings.Contains(s, "{{") {
				return nil, false
			}
		}
		return v, true
	case string:
		if strings.Contains(v, "{{") || oneText(v) {
			return nil, false
		}
		parsed, _ := value.DecodeJSON([]byte(v))
		of, isList := parsed.([]any)
		if !isList {
			return nil, false
		}
		return exactList(of)
	}
	return nil, true
}

// amongExactly converts In and NotIn for a key that is a list: wildcards are letters.
func (c *converter) amongExactly(key term, list []any, outside bool) expr {
	if list == nil {
		return no
	}
	texts := make([]string, len(list))
	for i, e := range list {
		s, _ := e.(string)
		texts[i] = text(s)
	}
	x := c.variableOf(key.expr)
	in := comparison("dyn(" + x + ") in [" + strings.Join(texts, ", ") + "]")
	if key.elements == textShape {
		in = comparison(x + " in [" + strings.Join(texts, ", ") + "]")
	}
	if outside {
		return key.macro("exists", x, not(in))
	}
	return key.macro("all", x, in)
}

// asTexts returns x as a text: numbers and booleans are compared as texts.
func asTexts(x expr, key term) expr {
	if key.shape == textShape && !key.maybeList || key.shape == listShape && key.elements == textShape {
		return x
	}
	return member("string(" + x.text + ")")
}

func (c *converter) among(key term, v any, path string) (a among, ok bool) {
	switch v := v.(type) {
	case []any:
		return c.amongList(key, v, path)
	case string:
		if strings.Contains(v, "{{") {
			return c.amongVariable(key, v, path)
		}
		if r, isRange := measure.ParseRange(v); isRange && !r.Outside {
			low, high := r.Low.Text(), r.High.Text()
			return among{
				holds:   func(x expr) expr { return and(c.ordered(x, ">=", low, path), c.ordered(x, "<=", high, path)) },
				outside: func(x expr) expr { return or(c.ordered(x, "<", low, path), c.ordered(x, ">", high, path)) },
			}, true
		}
		if parsed, err := value.DecodeJSON([]byte(v)); err == nil {
			if list, isList := parsed.([]any); isList {
				return c.amongList(key, list, path)
			}
			return among{scalarOnly: true, holds: func(x expr) expr { return c.anyGlob(asTexts(x, key), []string{v}) }}, true
		}
		digits := !letters().MatchString(v)
		return among{holds: func(x expr) expr {
			if digits || key.shape == numberShape || key.shape == boolShape {
				x = asTexts(x, key)
			}
			return c.anyGlob(x, []string{v})
		}}, true
	case int64, float64, bool:
		one, _ := c.operand(v, path)
		return among{listsOnly: true, holds: func(x expr) expr { return comparison("string(" + x.text + ") == " + text(one.text)) }}, true
	case nil, map[string]any:
		return among{scalarOnly: true, holds: func(expr) expr { return no }}, true
	}
	c.refuse(path, value.TypeName(v)+" as a value is not converted", "")
	return a, false
}

// amongList converts a list of texts, numbers and variables.
func (c *converter) amongList(key term, list []any, path string) (among, bool) {
	var plain []string
	var dynamic []term
	digits := false
	for i, e := range list {
		switch e := e.(type) {
		case string:
			if strings.Contains(e, "{{") {
				one, ok := c.operand(e, path+"["+strconv.Itoa(i)+"]")
				if !ok {
					return among{}, false
				}
				dynamic = append(dynamic, one)
				continue
			}
			digits = digits || !letters().MatchString(e)
			plain = append(plain, e)
		case int64:
			digits, plain = true, append(plain, strconv.FormatFloat(float64(e), 'g', -1, 64))
		case float64:
			digits, plain = true, append(plain, strconv.FormatFloat(e, 'g', -1, 64))
		case bool:
			digits, plain = true, append(plain, strconv.FormatBool(e))
		default:
			c.refuse(path, "a list with "+value.TypeName(e)+" is not converted", "")
			return among{}, false
		}
	}
	return among{holds: func(x expr) expr {
		if digits || key.shape == numberShape || key.shape == boolShape || slices.ContainsFunc(plain, wildcard.Has) && key.shape != textShape && key.elements != textShape {
			x = asTexts(x, key)
		}
		out := []expr{c.anyGlob(x, plain)}
		for _, d := range dynamic {
			if d.shape == listShape && len(d.keys) == 0 {
				continue // a list in a list is compared as a whole
			}
			out = append(out, and(d.filled(), comparison(x.within(bindsUnary)+" == "+d.value().within(bindsUnary))))
		}
		return or(out...)
	}}, true
}

// amongVariable converts a value that is known when the rule is evaluated: a list or a text, which may have wildcards.
func (c *converter) amongVariable(key term, v, path string) (a among, ok bool) {
	other, ok := c.operand(v, path)
	if !ok {
		return a, false
	}
	_, constantList := other.constant.([]any)
	isPattern := key.shape == textShape && isLiteral(key.text) && wildcard.Has(literalOf(key.text)) // for the values
	if other.constant != nil && !(constantList && isPattern) {
		return c.among(key, other.constant, path)
	}
	defer func() { a.given = other.filled() }()
	values := other.value()
	if isPattern {
		all := values
		if other.shape != listShape {
			all = elements(values)
		}
		y := c.variable()
		is := globText(member(y), literalOf(key.text))
		if other.elements != textShape {
			is = globText(member("string("+y+")"), literalOf(key.text))
		}
		return among{holds: func(expr) expr { return all.macro("exists", y, is) }}, true
	}
	switch {
	case strings.Contains(other.root.text, "'configmaps'"): // texts that an administrator writes: a list in JSON, or one with wildcards
		all := values
		if other.shape != listShape {
			y := c.variable()
			all = member("[" + values.text + "].map(" + y + ", type(" + y + ") == string ? (" + y + ".startsWith('[') ? json.unmarshal(" + y + ") : dyn([" + y + "])) : dyn(" + y + "))[0]")
		}
		p := c.variable()
		return among{holds: func(x expr) expr {
			return all.macro("exists", p, member(asTexts(x, key).within(bindsMember)+".matches("+globOf(member(p))+")"))
		}}, true
	case other.shape == listShape && strings.Contains(values.text, "*'"):
		p := c.variable()
		return among{holds: func(x expr) expr {
			return values.macro("exists", p, member(asTexts(x, key).within(bindsMember)+".matches("+globOf(member(p))+")"))
		}}, true
	case other.shape == listShape && !other.maybeList:
		return among{holds: func(x expr) expr { return comparison(x.text + " in " + values.within(bindsUnary)) }}, true
	case other.shape == textShape && !other.maybeList:
		if wildcard.Has(literals(v)) {
			return among{holds: func(x expr) expr {
				return member(asTexts(x, key).within(bindsMember) + ".matches(" + globOf(values) + ")")
			}}, true
		}
		return among{holds: func(x expr) expr {
			return comparison(x.within(bindsUnary) + " == " + values.within(bindsUnary))
		}}, true
	case other.shape == numberShape || other.shape == boolShape:
		return among{listsOnly: true, holds: func(x expr) expr { return comparison(x.within(bindsUnary) + " == " + values.within(bindsUnary)) }}, true
	}
	return among{holds: func(x expr) expr { return comparison(x.text + " in " + elements(values).text) }}, true
}

// globOf returns a regular expression for a text with wildcards that is known when the rule is evaluated.
func globOf(p expr) string {
	return "'^(?s)' + regex.replace(string(" + p.text + "), '[!-)+-/:->@[-^`{-~]', '\\\\\\\\\\\\0').replace('*', '.*').replace('?', '.') + '$'"
}

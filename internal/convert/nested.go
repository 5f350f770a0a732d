package convert

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// innermost matches the variables in a text that contain no other variables. Braces may be around a map.
var innermost = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{((?:[^{}]|\{[^{}]*\})*)\}\}`) })

// marks stand for the variables inside an expression, until its literals and names are converted.
var marks = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("\uE000([0-9]+)\uE001") })

// nested returns the expression with marks in place of the variables in it, which it converts.
func (s *search) nested(source string) (string, bool) {
	for {
		at := innermost().FindStringSubmatchIndex(source)
		if at == nil {
			return source, true
		}
		inside := strings.TrimSpace(strings.TrimPrefix(source[at[2]:at[3]], "-"))
		one := &search{converter: s.converter, path: s.path, source: inside, inner: s.inner}
		v, ok := one.whole(inside)
		if !ok {
			return "", false
		}
		mark := "\uE000" + strconv.Itoa(len(s.inner)) + "\uE001"
		value := term{expr: v.value(), root: v.value(), shape: v.shape, elements: v.elements, given: v.filled(), place: v.place, maybeList: v.maybeList}
		before := source[:at[0]]
		before = before[strings.LastIndex(before, "{{")+1:] // the variable around this one has quotation marks of its own
		switch quote(before) {
		case '\'':
			if v.shape != textShape || v.maybeList || v.filled() != yes {
				value = term{expr: s.textOf(v), shape: textShape}
			}
		case '"':
		case '`':
			mark = `"` + mark + `"`
		default:
			if strings.HasSuffix(strings.TrimSpace(source[:at[0]]), ".") {
				mark = `"` + mark + `"`
				break
			}
			mark = "`\"" + mark + "\"`"
		}
		s.inner = append(s.inner, value)
		if v.present() != yes && len(v.keys) > 0 && !s.inMessage && !strings.HasPrefix(v.text, "request.") {
			s.demands = append(s.demands, v.text)
		}
		source = source[:at[0]] + mark + source[at[1]:]
	}
}

// quote returns the quotation mark that is open at the end of a part of an expression; 0 for none.
func quote(before string) byte {
	open := byte(0)
	for i := 0; i < len(before); i++ {
		switch c := before[i]; {
		case c == '\\':
			i++
		case open == 0 && (c == '\'' || c == '"' || c == '`'):
			open = c
		case c == open:
			open = 0
		}
	}
	return open
}

// text converts the text of a literal.
func (s *search) text(source string) (term, bool) {
	all := marks().FindAllStringSubmatchIndex(source, -1)
	if len(all) == 0 {
		return term{expr: member(text(source)), shape: textShape}, true
	}
	v := func(at []int) term {
		n, err := strconv.Atoi(source[at[2]:at[3]])
		if err != nil || n >= len(s.inner) {
			return term{}
		}
		return s.inner[n]
	}
	if len(all) == 1 && all[0][0] == 0 && all[0][1] == len(source) {
		return v(all[0]), true
	}
	var parts []string
	rest := 0
	for _, at := range all {
		if rest < at[0] {
			parts = append(parts, text(source[rest:at[0]]))
		}
		parts = append(parts, s.inText(v(at)))
		rest = at[1]
	}
	if rest < len(source) {
		parts = append(parts, text(source[rest:]))
	}
	return term{expr: expr{strings.Join(parts, " + "), bindsComparison}, shape: textShape}, true
}

// key returns the name of a field, or its expression if it is a variable.
func (s *search) key(name string) (key string, dynamic expr, ok bool) {
	if !marks().MatchString(name) {
		return name, expr{}, true
	}
	t, ok := s.text(name)
	if ok && t.shape != textShape {
		t.expr = member("string(" + t.text + ")")
	}
	return "", t.expr, ok
}

// whole converts an expression whose inner variables have marks.
func (s *search) whole(query string) (term, bool) {
	tree, err := parsed(query)
	if err != nil {
		s.refuse(s.path, err.Error(), "")
		return term{}, false
	}
	return s.tree(&tree, nil)
}

// inText returns the text that the classic language writes for a value inside another text.
func (s *search) inText(t term) string { return s.converter.inText(t) }

func (c *converter) inText(t term) string { return c.textOf(t).within(bindsComparison) }

func (c *converter) textOf(t term) expr {
	scalar := t.shape != anyShape || isPath().MatchString(t.value().text) || strings.Contains(t.root.text, "'configmaps'")
	switch given := t.filled(); given {
	case yes:
		return spelled(t, scalar)
	case no:
		return member("'null'")
	default:
		return expr{given.within(bindsOr) + " ? " + spelled(t, scalar).within(bindsOr) + " : 'null'", bindsTernary}
	}
}

// spelled returns the text of a value: JSON, unless it is a text. scalar: a value whose shape is not known is no list and no map.
func spelled(t term, scalar bool) expr {
	v := t.value()
	switch {
	case t.shape == textShape && !t.maybeList:
		return v
	case t.shape == quantityShape: // of a message
		return member("string(" + v.within(bindsMember) + ".asApproximateFloat())")
	case t.shape == listShape, t.shape == mapShape, t.text == "request.userInfo",
		t.shape == numberShape && computes().MatchString(v.text): // string() has exponents from a million
		return member("json.marshal(" + v.text + ")")
	case scalar, t.shape == numberShape, t.shape == boolShape:
		return member("string(" + v.text + ")")
	}
	return expr{"type(" + v.text + ") == string ? " + v.within(bindsOr) + " : json.marshal(" + v.text + ")", bindsTernary}
}

// computes matches expressions that may be numbers with fractions.
var computes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?\(?(double|math)\b|asApproximateFloat`) })

// isPath matches paths.
var isPath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(paths) })

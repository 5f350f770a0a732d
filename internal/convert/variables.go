package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/value"
)

// part is a piece of a text: a literal, or the expression of an outermost variable.
type part struct {
	literal  string
	variable string
}

// partsOf splits a text at its outermost variables.
func partsOf(s string) []part {
	type span struct{ from, to int }
	var all []span
	work := []byte(s)
	for range 20 {
		found := innermost().FindAllIndex(work, -1)
		if len(found) == 0 {
			break
		}
		for _, at := range found {
			all = slices.DeleteFunc(all, func(o span) bool { return o.from >= at[0] && o.to <= at[1] })
			all = append(all, span{at[0], at[1]})
			for i := at[0]; i < at[1]; i++ {
				work[i] = '.'
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.from - b.from })
	var out []part
	rest := 0
	for _, v := range all {
		if rest < v.from {
			out = append(out, part{literal: s[rest:v.from]})
		}
		out = append(out, part{variable: strings.TrimSpace(strings.TrimPrefix(s[v.from+2:v.to-2], "-"))})
		rest = v.to
	}
	if rest < len(s) {
		out = append(out, part{literal: s[rest:]})
	}
	return out
}

// wholeVariable returns the expression of a text that is one variable.
func wholeVariable(s string) (string, bool) {
	parts := partsOf(strings.TrimSpace(s))
	if len(parts) == 1 && parts[0].literal == "" {
		return parts[0].variable, true
	}
	return "", false
}

// literals returns a text without its variables.
func literals(s string) string {
	var b strings.Builder
	for _, p := range partsOf(s) {
		b.WriteString(p.literal)
	}
	return b.String()
}

// operand converts a key or a value, which may contain variables.
func (c *converter) operand(v any, path string) (term, bool) {
	switch v := v.(type) {
	case string:
		if x, ok := wholeVariable(v); ok {
			t, ok := c.search(x, path)
			if t.lookup != (expr{}) && t.text == t.lookup.text { // an object that does not exist is an error
				t = existing(c, t)
			}
			c.hear(t)
			return t, ok
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
	case float64:
		return term{expr: member(strconv.FormatFloat(v, 'f', -1, 64)), shape: numberShape}, true
	case []any, map[string]any:
		return c.composed(v, path)
	}
	c.refuse(path, value.TypeName(v)+" as a key is not converted", "")
	return term{}, false
}

// composed converts a list or a map, whose texts may contain variables.
func (c *converter) composed(v any, path string) (term, bool) {
	dynamic := func(e any, path string) (string, term, bool) {
		one, ok := c.operand(e, path)
		if !ok {
			return "", one, false
		}
		return "dyn(" + one.text + ")", one, true
	}
	switch v := v.(type) {
	case []any:
		parts, plain := make([]string, len(v)), make([]string, len(v))
		same := true
		for i, e := range v {
			d, one, ok := dynamic(e, path+"["+strconv.Itoa(i)+"]")
			if !ok {
				return one, false
			}
			parts[i], plain[i] = d, one.text
			same = same && one.shape == textShape && !one.maybeList && len(one.keys) == 0
		}
		if same {
			parts = plain
		}
		out := term{expr: member("[" + strings.Join(parts, ", ") + "]"), shape: listShape}
		if same {
			out.elements = textShape
		}
		return out, true
	case map[string]any:
		var parts []string
		for _, k := range sortedNames(v) {
			key, ok := c.operand(k, path)
			d, one, also := dynamic(v[k], path+"."+k)
			if !ok || !also {
				return one, false
			}
			if (one.shape == numberShape || one.shape == boolShape) && marking().MatchString(path+"."+k) {
				d = "dyn(string(" + one.text + "))"
			}
			parts = append(parts, key.text+": "+d)
		}
		return term{expr: member("{" + strings.Join(parts, ", ") + "}")}, true
	}
	return term{}, false
}

// marking matches the paths of the labels and annotations of a generated object, whose values are texts.
var marking = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\.generate(\.foreach\[\d+\])?(\.data)?\.metadata\.(labels|annotations)\.`)
})

func sortedNames(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// texts converts text with variables into the operands of a concatenation.
func (c *converter) texts(s, path string) ([]string, bool) {
	if strings.Contains(s, `\{{`) {
		c.refuse(path, "an escaped variable is not converted", "")
		return nil, false
	}
	var out []string
	for _, p := range partsOf(s) {
		if p.variable == "" {
			if strings.Contains(p.literal, "{{") {
				c.refuse(path, "a variable that is not closed is not converted", "")
				return nil, false
			}
			out = append(out, text(p.literal))
			continue
		}
		v, ok := c.search(p.variable, path)
		if !ok {
			return nil, false
		}
		if (v.shape == durationShape || v.shape == quantityShape) && !c.inMessage && !strings.HasSuffix(path, ".message") {
			c.refuse(path, "the text of a duration or a quantity is not converted", "")
			return nil, false
		}
		c.hear(v)
		out = append(out, c.inText(v))
	}
	return out, true
}

// hear collects the condition under which a variable has a value.
func (c *converter) hear(t term) {
	if c.needed != nil && t.present() != yes {
		*c.needed = append(*c.needed, t)
	}
	if c.heard != nil {
		*c.heard = append(*c.heard, and(t.present(), orYes(t.safe)))
	}
}

// surely converts conditions that do not hold where a variable in them is missing.
func (c *converter) surely(convert func() expr) expr {
	before := c.heard
	c.heard = &[]expr{}
	out := convert()
	c.heard = before
	return out
}

package convert

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/wildcard"
)

// patternVariable converts a text of a pattern with variables. Names, labels and other texts of objects have no operators and no wildcards; those
// of ConfigMaps and constants may have them.
func (c *converter) patternVariable(s string, at expr, path string) expr {
	if strings.ContainsAny(literals(s), "|&<>") {
		return c.patternVariables(s, at, path)
	}
	rest, negated := strings.CutPrefix(s, "!")
	t, ok := c.operand(rest, path)
	if !ok {
		return no
	}
	var out expr
	switch {
	case t.constant != nil:
		out = c.patternScalar(t.constant, at, path)
	case strings.Contains(t.root.text, "'configmaps'") && c.isText():
		out = patternText(t.value(), at)
	case strings.Contains(t.root.text, "'configmaps'"):
		c.refuse(path, "a pattern that is the text of a ConfigMap may contain operators that are known only at evaluation", "write the comparison as a deny condition")
		return no
	case wildcard.Has(literals(rest)):
		out = member("string(" + at.text + ").matches(" + globOf(t.value()) + ")")
	case t.shape == textShape && !t.maybeList:
		out = comparison("dyn(" + at.text + ") == " + t.value().within(bindsUnary))
	default:
		out = or(comparison("dyn("+at.text+") == "+t.value().within(bindsUnary)), comparison("string("+at.text+") == string("+t.value().text+")"))
	}
	if given := t.filled(); given != yes {
		out = and(given, out)
	}
	if negated {
		return not(out)
	}
	return out
}

// patternVariables converts a text of a pattern with variables beside operators: alternatives, parts that must all hold, and bounds.
func (c *converter) patternVariables(s string, at expr, path string) expr {
	var alternatives []expr
	for _, alternative := range splitOutside(s, '|') {
		all := yes
		for _, one := range splitOutside(alternative, '&') {
			one = strings.TrimSpace(one)
			if !strings.Contains(one, "{{") {
				all = and(all, c.term(one, at, path))
				continue
			}
			all = and(all, c.bound(one, at, path))
		}
		alternatives = append(alternatives, all)
	}
	return or(alternatives...)
}

// bound converts one comparison with a variable.
func (c *converter) bound(s string, at expr, path string) expr {
	for _, operator := range []string{">=", "<=", ">", "<"} {
		rest, ok := strings.CutPrefix(s, operator)
		if !ok {
			continue
		}
		t, ok := c.operand(strings.TrimSpace(rest), path)
		if !ok {
			return no
		}
		if t.constant != nil {
			if n, isText := t.constant.(string); isText {
				return c.ordered(at, operator, n, path)
			}
			return c.ordered(at, operator, t.text, path)
		}
		value, wanted := "string("+at.text+")", "string("+t.value().text+")"
		return and(t.filled(), member("isQuantity("+value+")"), member("isQuantity("+wanted+")"), comparison("quantity("+value+").compareTo(quantity("+wanted+")) "+operator+" 0"))
	}
	return c.patternVariable(s, at, path)
}

// splitOutside splits a text at a character, except in variables.
func splitOutside(s string, at byte) []string {
	out := []string{""}
	for _, p := range partsOf(s) {
		if p.variable != "" {
			out[len(out)-1] += "{{ " + p.variable + " }}"
			continue
		}
		for i, piece := range strings.Split(p.literal, string(at)) {
			if i > 0 {
				out = append(out, "")
			}
			out[len(out)-1] += piece
		}
	}
	return out
}

// isText reports whether the value of the current part of a pattern is a text in all kinds.
func (c *converter) isText() bool {
	kinds := c.matched
	if c.inPods() {
		kinds = kinds[:min(1, len(kinds))]
	}
	return c.trail.known && c.typeAt(kinds, c.trail.names) == "string"
}

// patternText compares a text with a pattern that is known when the rule is evaluated: alternatives, parts that must all match, ! and wildcards. Bounds
// are left out: they match no text.
func patternText(pattern, at expr) expr {
	matches := comparison("one.trim().startsWith('!') != " + at.within(bindsMember) + ".matches(" + globOf(expr{"one.trim().replace('!', '', 1)", bindsMember}) + ")")
	all := member("alternative.split('&')").macro("all", "one", matches)
	return member("string("+pattern.text+").split('|')").macro("exists", "alternative", all)
}

// needing converts a pattern. A variable that is missing is an error, even if its part of the pattern decides nothing.
func (c *converter) needing(convert func() expr) expr {
	before := c.needed
	c.needed = &[]term{}
	out := convert()
	for _, t := range slices.Backward(*c.needed) {
		if c.tolerant && c.enforced && len(c.outer) == 0 { // of an update, a violation is tolerated, and an error is not
			out = expr{and(t.filled(), comparison(t.value().within(bindsUnary)+" != null")).text + " ? " + out.within(bindsOr) + " : false", bindsTernary}
			continue
		}
		out = and(t.present(), out)
	}
	c.needed = before
	return out
}

package convert

import (
	"strings"

	"ephor.invalid/ephor/internal/wildcard"
)

// patternVariable converts a text of a pattern with variables. Names, labels and other texts of objects have no operators and no wildcards; those
// of ConfigMaps and constants may have them.
func (c *converter) patternVariable(s string, at expr, path string) expr {
	if literal := literals(s); strings.ContainsAny(literal, "|&<>") || strings.HasPrefix(literal, "!") && literal != "!" {
		c.refuse(path, "a variable beside operators in a pattern is not converted", "write the comparison as a deny condition")
		return no
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

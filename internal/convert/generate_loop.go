package convert

import (
	"maps"
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
)

// generateLoop converts a loop: the objects that it generates for each element.
func (c *converter) generateLoop(l *kyvernov1.ForEachGeneration, path string) map[string]any {
	all, ok := c.search(strings.TrimSpace(l.List), path+".list")
	if !ok {
		return nil
	}
	all.expr, all.keys, all.needs, all.given = all.orElse("[]"), nil, expr{}, expr{} // without a list, nothing is generated
	x, i := c.variableOf(all.expr), c.fresh("i")
	entries := maps.Clone(c.entries)
	c.element, c.elementPlace, c.elementShape, c.position = member(x), all.itemPlace(), all.elements, member(i)
	c.outer = append(c.outer, loop{c.element, c.position})
	c.context(l.Context, path+".context")
	var made map[string]any
	switch g := &l.GeneratePattern; {
	case g.Clone != (kyvernov1.CloneFrom{}):
		made = c.clone(g, path)
	case len(g.CloneList.Kinds) > 0:
		made = c.cloneList(g, path)
	default:
		made = c.applied(g, path)
	}
	when := yes
	if p := l.AnyAllConditions; p != nil {
		when = c.conditions(document(p), path+".preconditions")
	}
	c.element, c.elementPlace, c.elementShape, c.position, c.entries = expr{}, nil, anyShape, expr{}, entries
	c.outer = c.outer[:len(c.outer)-1]
	call, _ := made["expression"].(string)
	if call == "" {
		return nil
	}
	body := or(not(when), expr{call, bindsOr})
	if !indexed(body.text, i) {
		return map[string]any{"expression": all.macro("all", x, body).text}
	}
	body.text = "[" + all.within(bindsMember) + "[" + i + "]].all(" + x + ", " + body.text + ")"
	return map[string]any{"expression": "lists.range(size(" + all.text + ")).all(" + i + ", " + body.text + ")"}
}

// indexed reports whether an expression reads a variable.
func indexed(text, name string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_')
	}), func(word string) bool { return word == name })
}

// applied converts an object whose content is part of the rule to an expression, in which variables of loops can occur.
func (c *converter) applied(g *kyvernov1.GeneratePattern, path string) map[string]any {
	document, ok := c.generated(g, path)
	if !ok {
		return nil
	}
	made, ok := c.composed(document, path+".data")
	if !ok {
		return nil
	}
	to, ok := c.place(g.Namespace, path+".namespace")
	if !ok {
		return nil
	}
	return c.generatorCall(to, "dyn("+made.text+")")
}

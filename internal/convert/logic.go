package convert

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
)

// either converts a || b: b where a is missing, false or empty.
func (s *search) either(t *jmespath.Tree, current *term) (term, bool) {
	left, ok := s.tree(&t.Children[0], current)
	if !ok {
		return left, false
	}
	right, ok := s.tree(&t.Children[1], current)
	if !ok {
		return right, false
	}
	if choice := &t.Children[0]; choice.Kind == "ASTAndExpression" && left.shape != boolShape { // a && b || c chooses
		when, ok := s.condition(&choice.Children[0], current)
		chosen, also := s.tree(&choice.Children[1], current)
		return s.choice(and(when, chosen.truthy()), chosen, right), ok && also
	}
	if left.text == "request.operation" { // every request has one, and scans have CREATE
		return left, true
	}
	return s.orElse(left, right)
}

// both converts a && b: b where a counts as true, and a where it does not.
func (s *search) both(t *jmespath.Tree, current *term) (term, bool) {
	left, ok := s.tree(&t.Children[0], current)
	if !ok {
		return left, false
	}
	right, ok := s.tree(&t.Children[1], current)
	if !ok {
		return right, false
	}
	when, ok := s.condition(&t.Children[0], current)
	if left.shape == boolShape && right.shape == boolShape {
		return term{expr: and(when, right.truthy()), shape: boolShape}, ok
	}
	return s.choice(when, right, left), ok
}

// choice returns one of two values, and null for one that is missing.
func (s *search) choice(when expr, a, b term) term {
	out := term{shape: a.shape}
	x, y := s.orNull(a), s.orNull(b)
	if a.shape != b.shape || a.shape == anyShape || a.there() != yes || b.there() != yes {
		out.shape = anyShape
		x, y = member("dyn("+x.text+")"), member("dyn("+y.text+")")
	}
	if when == yes {
		return a
	}
	out.expr = expr{when.within(bindsOr) + " ? " + x.within(bindsOr) + " : " + y.within(bindsTernary), bindsTernary}
	return out
}

// orElse returns left || right.
func (s *search) orElse(left, right term) (term, bool) {
	if left.shape == listShape && len(left.keys) == 0 && right.text == "[]" {
		out := term{expr: left.expr, shape: listShape, elements: left.elements, items: left.items, safe: left.safe}
		if needs := orYes(left.needs); needs != yes {
			out.expr = member("(" + needs.within(bindsOr) + " ? " + left.within(bindsOr) + " : [])")
		}
		return out, true
	}
	if left.lookup != (expr{}) { // an object that does not exist is an error
		left = existing(s.converter, left)
	}
	out := term{shape: right.shape, maybeList: right.shape != anyShape && left.shape != right.shape, safe: left.safe, elements: left.elements}
	if left.shape == textShape && right.shape == textShape {
		out.maybeList = left.maybeList || right.maybeList
	}
	if there := right.there(); there != yes {
		out.given = or(left.truthy(), there)
	}
	constant := right.keys == nil && right.root == (expr{}) && right.there() == yes
	if left.alternatives != nil && constant && right.shape == textShape {
		out.expr = member(firstText(left.alternatives, right.text != "''").text + ".orValue(" + right.text + ")")
		return out, true
	}
	if left.simple() && constant {
		known := left.shape == textShape || left.shape == boolShape
		if right.text == "[]" {
			out.items = left.itemPlace()
		}
		switch right.text {
		case "''", "[]", "{}", "false", "0":
			out.expr = member(left.optional().text + ".orValue(" + right.text + ")")
			return out, true
		}
		if right.shape == numberShape {
			out.expr = member(left.optional().text + ".orValue(" + right.text + ")")
			return out, true
		}
		x := s.variable()
		kept := "optional.ofNonZeroValue(" + x + ")"
		if !known { // zero counts as true
			kept = x + " == 0 ? optional.of(" + x + ") : " + kept
		}
		out.expr = member(left.optional().text + ".optFlatMap(" + x + ", " + kept + ").orValue(" + right.text + ")")
		return out, true
	}
	truth := left.truthy()
	switch {
	case truth == yes:
		return left, true
	case truth == no:
		return right, true
	case right.there() == no: // null
		return term{expr: left.value(), shape: left.shape, maybeList: left.maybeList, elements: left.elements, items: left.itemPlace(), given: truth, safe: left.safe}, true
	}
	whole := left.value()
	if left.shape == listShape && len(left.keys) == 0 {
		whole = left.expr
	}
	a, b := whole.within(bindsOr), right.value().within(bindsTernary)
	if left.shape != right.shape || left.shape == anyShape || left.maybeList {
		a, b = "dyn("+whole.text+")", "dyn("+right.value().text+")"
	}
	out.expr = expr{truth.within(bindsOr) + " ? " + a + " : " + b, bindsTernary}
	if isText := func(t term) bool { return t.simple() && t.shape == textShape && !t.maybeList }; isText(right) && (isText(left) || left.alternatives != nil) {
		out.alternatives = append(slices.Clone(left.alternatives), right)
		if left.alternatives == nil {
			out.alternatives = []term{left, right}
		}
	}
	return out, true
}

// firstText returns the first of several texts that is there and not empty, as an optional value. The last one may be empty, unless whole is set.
func firstText(all []term, whole bool) expr {
	var out expr
	for i, t := range all {
		one := t.optional()
		if whole || i+1 < len(all) {
			one = member("optional.ofNonZeroValue(" + one.text + ".orValue(''))")
		}
		if i == 0 {
			out = one
			continue
		}
		out = member(out.text + ".or(" + one.text + ")")
	}
	return out
}

// existing returns a value in an object of the cluster, which is an error where the object does not exist.
func existing(c *converter, t term) term {
	x := c.variable()
	there := "[dyn(" + t.lookup.text + ")].filter(" + x + ", " + x + " != null)[0]"
	for _, e := range []*expr{&t.expr, &t.root, &t.needs, &t.given, &t.safe, &t.strict} {
		e.text = strings.ReplaceAll(e.text, t.lookup.text, there)
	}
	t.lookup = expr{}
	return t
}

// condition converts a boolean expression.
func (s *search) condition(t *jmespath.Tree, current *term) (expr, bool) {
	switch t.Kind {
	case "ASTAndExpression", "ASTOrExpression":
		left, ok := s.condition(&t.Children[0], current)
		around, safe := s.safe, []expr{}
		if around != nil {
			s.safe = &safe
		}
		right, also := s.condition(&t.Children[1], current)
		s.safe = around
		decided, join := not(left), and
		if t.Kind == "ASTOrExpression" {
			decided, join = left, or
		}
		for _, one := range safe { // the right side is evaluated if the left one decides nothing
			*around = append(*around, or(decided, one))
		}
		return join(left, right), ok && also
	case "ASTNotExpression":
		switch t.Children[0].Kind {
		case "ASTAndExpression", "ASTOrExpression", "ASTComparator", "ASTNotExpression", "ASTFunctionExpression":
			inner, ok := s.condition(&t.Children[0], current)
			return not(inner), ok
		}
		v, ok := s.tree(&t.Children[0], current) // the negation of what is missing is missing, and not true
		if v.shape == boolShape && v.simple() {
			return and(v.present(), not(v.expr)), ok
		}
		return and(v.present(), not(v.truthy())), ok
	case "ASTComparator":
		return s.comparison(t, current)
	}
	v, ok := s.tree(t, current)
	if !ok {
		return no, false
	}
	if safe := orYes(v.safe); safe != yes && s.safe != nil {
		*s.safe = append(*s.safe, safe)
	}
	return v.truthy(), true
}

// comparators maps the names of jmespath.Tree to operators.
var comparators = map[string]string{"tEQ": "==", "tNE": "!=", "tLT": "<", "tLTE": "<=", "tGT": ">", "tGTE": ">="}

// comparison converts a comparison. A missing value is null, which equals only null and is neither less nor greater than any value. Only numbers
// are less or greater.
func (s *search) comparison(t *jmespath.Tree, current *term) (expr, bool) {
	operator, ok := comparators[t.Value]
	if !ok {
		s.unknown("the operator " + t.Value)
		return no, false
	}
	left, ok := s.tree(&t.Children[0], current)
	right, also := s.tree(&t.Children[1], current)
	if !ok || !also {
		return no, false
	}
	l, r := left.there(), right.there()
	if operator == "==" || operator == "!=" {
		same := comparison(left.value().within(bindsUnary) + " == " + right.value().within(bindsUnary))
		if left.shape != right.shape || computes().MatchString(left.text+" "+right.text) {
			same = comparison(dynamic(left.value()).within(bindsUnary) + " == " + right.value().within(bindsUnary))
		}
		var out expr
		switch {
		case r == no: // null
			out = not(l)
		case l == no:
			out = not(r)
		case l == yes && r == yes:
			out = same
		case l == yes || r == yes:
			out = and(l, r, same)
		default:
			out = or(and(l, r, same), and(not(l), not(r)))
		}
		if operator == "!=" {
			if r == yes && l != yes {
				return or(not(l), not(same)), true
			}
			return not(out), true
		}
		return out, true
	}
	if left.shape == textShape || right.shape == textShape || left.shape == boolShape || right.shape == boolShape || left.shape == listShape || right.shape == listShape {
		return no, true
	}
	all := []expr{l, r}
	for _, side := range []term{left, right} {
		if side.shape == anyShape {
			all = append(all, isNumber(side.value()))
		}
	}
	return and(append(all, comparison(left.value().within(bindsUnary)+" "+operator+" "+right.value().within(bindsUnary)))...), true
}

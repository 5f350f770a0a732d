package convert

import (
	"slices"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/jmespath"
)

// source converts the left side of a projection to a list, which is empty where the left side is missing.
func (s *search) list(t *jmespath.Tree, current *term) (term, bool) {
	switch {
	case t.Kind == "ASTSubexpression" && t.Children[1].Kind == "ASTMultiSelectList":
		left, ok := s.tree(&t.Children[0], current)
		if !ok {
			return left, false
		}
		return s.sum(&t.Children[1], &left)
	case t.Kind == "ASTMultiSelectList":
		return s.sum(t, current)
	case t.Kind == "ASTIdentity" && current == nil:
		return s.unknown("a projection without a list")
	}
	left, ok := s.tree(t, current)
	if !ok {
		return left, false
	}
	out := left.list()
	out.elements = left.elements
	return out, true
}

// sum converts [a, b][]: the elements of those lists among a and b that exist.
func (s *search) sum(t *jmespath.Tree, current *term) (term, bool) {
	var parts []string
	images := false
	for i := range t.Children {
		part, ok := s.tree(&t.Children[i], current)
		if !ok {
			return part, false
		}
		list := part.list()
		if part.root.text == imagesMark {
			if list, images = s.imagesOf(part); !images {
				return s.unknown("images")
			}
		}
		if part.shape == textShape || part.shape == numberShape || part.shape == boolShape {
			list.expr = member("[" + part.text + "]")
			if there := part.sound(); there != yes {
				list.expr = member("(" + there.within(bindsOr) + " ? [" + part.text + "] : [])")
			}
		}
		parts = append(parts, list.text)
	}
	return term{expr: expr{strings.Join(parts, " + "), bindsComparison}, shape: listShape, images: images}, true
}

// elementsOf returns the elements of the lists in a list. They have any type (see elements).
func elementsOf(all expr) expr { return member("dyn(" + all.within(bindsMember) + ".flatten())") }

// nests reports whether the value of a node may be a list of lists.
func nests(t *jmespath.Tree) bool {
	switch t.Kind {
	case "ASTProjection", "ASTFilterProjection", "ASTValueProjection":
		return true
	case "ASTIdentity", "ASTCurrentNode": // of what is before a pipe
		return true
	case "ASTOrExpression", "ASTPipe":
		return nests(&t.Children[0])
	}
	return false
}

// flattened converts a list whose elements may be lists.
func (s *search) flattened(t *jmespath.Tree, current *term) (term, bool) {
	all, ok := s.list(&t.Children[0], current)
	if ok && nests(&t.Children[0]) && (all.elements == anyShape || all.elements == listShape) {
		out := all.each(elementsOf)
		if out.items = all.items; all.elements == listShape && all.items != nil {
			out.items = append(slices.Clip(all.items), "")
		}
		if one := s.typed(term{place: out.items}); one.shape != anyShape {
			out.elements = one.shape
		}
		return out, true
	}
	return all, ok
}

// projection converts a[].b, a[*].b and a[?c].b. Elements without b are left out.
func (s *search) projection(t *jmespath.Tree, current *term) (term, bool) {
	var all term
	var ok bool
	if source := &t.Children[0]; source.Kind == "ASTFlatten" {
		if source.Children[0].Kind == "ASTIdentity" && current == nil && s.here == (expr{}) { // many write [] for `[]`; the variables themselves are no list
			return s.constant(nil)
		}
		all, ok = s.flattened(source, current)
	} else {
		all, ok = s.list(source, current)
	}
	if !ok {
		return all, false
	}
	kept, filter := yes, t.Kind == "ASTFilterProjection"
	x := s.variableOf(all.expr)
	one := s.typed(term{expr: member(x), root: member(x), shape: all.elements, place: all.itemPlace(), image: all.images})
	item := &one
	var safe []expr
	if filter {
		around := s.safe
		s.safe = &safe
		kept, ok = s.condition(&t.Children[2], item)
		if s.safe = around; !ok {
			return all, false
		}
	}
	out, ok := s.mapped(all, x, item, kept, &t.Children[1])
	if len(safe) > 0 { // a function that fails for one element makes the whole list missing
		out.safe = and(all.macro("all", x, and(safe...)), orYes(out.safe))
	}
	return out, ok
}

// mapped returns what a node makes of the elements x of a list for which the condition holds.
func (s *search) mapped(all term, x string, item *term, kept expr, right *jmespath.Tree) (term, bool) {
	if right.Kind == "ASTIdentity" && item.text == x {
		if kept == yes {
			return all, true
		}
		out := all.each(func(l expr) expr { return l.macro("filter", x, kept) })
		out.elements, out.items = all.elements, all.items
		return out, true
	}
	one, ok := s.tree(right, item)
	if !ok {
		return one, false
	}
	made := one.expr
	if one.shape == listShape && one.strict != (expr{}) {
		made = one.strict
	}
	before := kept
	kept = and(kept, one.there())
	out := all.each(func(l expr) expr {
		if kept == yes {
			return l.macro("map", x, made)
		}
		return member(l.within(bindsMember) + ".map(" + x + ", " + kept.text + ", " + made.text + ")")
	})
	out.elements, out.items = one.shape, one.place
	if safe := orYes(one.safe); safe != yes { // a function that fails for one element makes the whole list missing
		out.safe = all.macro("all", x, or(not(before), safe))
	}
	return out, true
}

// values converts a.*.b: the values of a map.
func (s *search) values(t *jmespath.Tree, current *term) (term, bool) {
	left, ok := s.tree(&t.Children[0], current)
	if !ok {
		return left, false
	}
	if left.image { // the images of all containers of several lists
		return s.tree(&t.Children[1], &left)
	}
	x := s.variable()
	if left.root.text == imagesMark {
		all, made := s.imagesOf(left)
		if !made {
			return s.unknown("images")
		}
		return s.mapped(all, x, &term{expr: member(x), image: true}, yes, &t.Children[1])
	}
	sound := left.sound()
	all := term{strict: left.value(), shape: listShape, given: sound}
	switch {
	case sound == yes:
		all.expr = left.expr
	case left.simple():
		all.expr = member(left.optional().text + ".orValue({})")
	default:
		all.expr = member("(" + sound.within(bindsOr) + " ? " + left.value().within(bindsOr) + " : {})")
	}
	at := member(left.value().within(bindsMember) + "[" + x + "]")
	item := &term{expr: at, root: at}
	if t.Children[1].Kind == "ASTIdentity" {
		return all.each(func(l expr) expr { return l.macro("map", x, at) }), true
	}
	return s.mapped(all, x, item, yes, &t.Children[1])
}

// items converts [a, b] to a list of these values.
func (s *search) items(t *jmespath.Tree, current *term) (term, bool) {
	var parts []string
	same := true
	for i := range t.Children {
		one, ok := s.tree(&t.Children[i], current)
		if !ok {
			return one, false
		}
		same = same && one.shape == textShape && !one.maybeList
		parts = append(parts, s.orNull(one).text)
	}
	if !same {
		for i, p := range parts {
			parts[i] = "dyn(" + p + ")"
		}
	}
	out := term{expr: member("[" + strings.Join(parts, ", ") + "]"), shape: listShape}
	if same {
		out.elements = textShape
	}
	return out, true
}

// members converts {a: b} to a map of these values.
func (s *search) members(t *jmespath.Tree, current *term) (term, bool) {
	var parts []string
	for i := range t.Children {
		name, _ := strconv.Unquote(t.Children[i].Value)
		one, ok := s.tree(&t.Children[i].Children[0], current)
		if !ok {
			return one, false
		}
		parts = append(parts, text(name)+": dyn("+s.orNull(one).text+")")
	}
	return term{expr: member("{" + strings.Join(parts, ", ") + "}"), shape: mapShape}, true
}

// orNull returns the value, or null where it is missing.
func (s *search) orNull(t term) expr {
	there := t.there()
	switch {
	case there == yes:
		return t.expr
	case there == no:
		return member("null")
	case t.simple():
		return member(t.optional().text + ".orValue(null)")
	}
	return expr{there.within(bindsOr) + " ? dyn(" + t.value().text + ") : null", bindsTernary}
}

// slice converts a part of a list: from an index to another one, which count from the end if they are negative, or the list in reverse.
func (s *search) slice(left term, bounds string) (term, bool) {
	parts := append(strings.Split(bounds, ":"), "")
	all := left.list()
	if parts[2] == "-1" && parts[0] == "" && parts[1] == "" {
		out := all.each(func(l expr) expr { return member(l.within(bindsMember) + ".reverse()") })
		out.elements = left.elements
		return out, true
	}
	if parts[2] != "" && parts[2] != "1" {
		return s.unknown("a slice")
	}
	x := s.variable()
	out := all.each(func(l expr) expr {
		size := "size(" + l.text + ")"
		bound := func(text, operator string) expr {
			n, err := strconv.Atoi(text)
			switch {
			case err != nil:
				return yes
			case n < 0:
				return comparison(x + " " + operator + " " + size + " - " + strconv.Itoa(-n))
			}
			return comparison(x + " " + operator + " " + text)
		}
		kept := and(bound(parts[0], ">="), bound(parts[1], "<"))
		if kept == yes {
			return l
		}
		return member("lists.range(" + size + ").filter(" + x + ", " + kept.text + ").map(" + x + ", " + l.within(bindsMember) + "[" + x + "])")
	})
	out.elements = left.elements
	return out, true
}

package convert

import "slices"

// shape is the known type of an expression's value.
type shape int

const (
	anyShape shape = iota
	textShape
	numberShape
	boolShape
	listShape
	durationShape
	quantityShape
	mapShape
)

// term is a converted JMESPath expression: a path below a root, or any other expression.
type term struct {
	// expr is the value. It is an error where the classic language has one. A list is empty where it is missing.
	expr
	root  expr     // if the term is a path
	keys  []string // if the term is a path
	shape shape
	// maybeList: the shape is that of a default; the value itself may have another type.
	maybeList bool
	// elements is the shape of the elements of a list.
	elements shape
	// needs is the condition, besides the keys of a path, that the value is not missing; where it does not hold, the classic language has an
	// error. Zero for none.
	needs expr
	// given is the condition that the value is not null. Zero for none.
	given expr
	// lenient: a key that is missing counts as null, as on the right side of a pipe.
	lenient bool
	// safe is the condition that no function in the term fails because an argument is missing. Zero for none.
	safe expr
	// strict is the value of a list that is an error where it is missing. Zero if there is none.
	strict expr
	// place is the path of the value in the object; an empty name stands for the elements of a list. Nil if it is not known.
	place []string
	// items is the place of the elements of a list that is not a path.
	items []string
	// image: the value is an object that describes the image with the reference expr.
	image bool
	// images: the elements of the list are such values.
	images bool
	// demands are the variables inside of it, which are errors if they are missing.
	demands []string
	// lookup is the object of the cluster in which the value is; zero for none.
	lookup expr
	// constant is the value of a constant that an entry of the context holds.
	constant any
	// alternatives are the paths to texts of which the value is the first that is there and not empty; nil for other values.
	alternatives []term
}

// orYes returns a condition; a zero one always holds.
func orYes(e expr) expr {
	if e == (expr{}) {
		return yes
	}
	return e
}

// path returns the value of the keys below root. A missing key is an error, in both languages.
func path(root expr, keys ...string) term {
	at := root
	for _, k := range keys {
		at = at.field(k)
	}
	return term{expr: at, root: root, keys: keys}
}

// value returns the value, which is an error where it is missing.
func (t term) value() expr {
	if t.strict != (expr{}) {
		return t.strict
	}
	return t.expr
}

// simple reports whether the term is a path that only needs its keys.
func (t term) simple() bool { return len(t.keys) > 0 && orYes(t.needs) == yes && orYes(t.given) == yes }

// optional returns a path as an optional value.
func (t term) optional() expr {
	at, keys := t.root, t.keys
	if isObject(at) && len(keys) > 1 && (keys[0] == "spec" || keys[0] == "metadata") {
		at, keys = at.field(keys[0]), keys[1:] // autogen rewrites the literal text object.spec for Pod controllers
	}
	for _, k := range keys {
		at = at.optional(k)
	}
	return at
}

// itemPlace returns the place of the elements of a list.
func (t term) itemPlace() []string {
	if t.items != nil || t.place == nil {
		return t.items
	}
	return append(slices.Clip(t.place), "")
}

// orElse returns the value of a path, or the expression other if a key is missing.
func (t term) orElse(other string) expr {
	switch there := t.there(); {
	case there == yes || t.shape == listShape && len(t.keys) == 0:
		return t.expr
	case t.simple():
		return member(t.optional().text + ".orValue(" + other + ")")
	default:
		return member("(" + there.within(bindsOr) + " ? " + t.value().within(bindsOr) + " : " + other + ")")
	}
}

// has returns the condition that all keys of a path exist.
func (t term) has() expr {
	out, at := yes, t.root
	for _, k := range t.keys {
		out, at = and(out, at.has(k)), at.field(k)
	}
	return out
}

// present returns the condition that the value is not missing, if it is not null.
func (t term) present() expr {
	if orYes(t.given) != yes {
		return orYes(t.needs)
	}
	return and(orYes(t.needs), t.has())
}

// filled returns the condition that the value is not null, if it is not missing.
func (t term) filled() expr {
	if given := orYes(t.given); given != yes && t.lenient {
		return and(given, t.has())
	}
	return orYes(t.given)
}

// there returns the condition that the value is neither missing nor null.
func (t term) there() expr { return and(orYes(t.needs), orYes(t.given), t.has()) }

// sound returns the condition that the value is there and no function in it fails.
func (t term) sound() expr { return and(t.there(), orYes(t.safe)) }

// truthy returns the condition that the value counts as true: it is there, and neither false nor empty.
func (t term) truthy() expr {
	switch t.shape {
	case boolShape:
		return and(t.there(), t.value())
	case listShape:
		if len(t.keys) == 0 {
			return and(orYes(t.needs), comparison("size("+t.text+") > 0"))
		}
		return and(t.there(), comparison("size("+t.text+") > 0"))
	case textShape:
		if isLiteral(t.text) && t.text != "''" {
			return yes
		}
		if !t.maybeList {
			return and(t.there(), comparison(t.value().within(bindsUnary)+" != ''"))
		}
	case mapShape:
		return and(t.there(), comparison("size("+t.value().text+") > 0"))
	case numberShape, durationShape, quantityShape:
		return t.there()
	}
	return and(t.there(), not(comparison(t.value().within(bindsUnary)+" in [dyn(null), dyn(false), dyn(''), dyn([]), dyn({})]")))
}

// piped returns the term as the left side of a pipe, where a missing value is null.
func (t term) piped() term {
	if t.shape == listShape && len(t.keys) > 0 {
		t = t.list()
	}
	if there := t.there(); there != yes {
		t.given = there
	}
	t.needs, t.lenient = expr{}, true
	if len(t.keys) > 0 {
		t.root, t.keys = t.expr, nil
	}
	return t
}

// list returns the term as a list, which is empty where the term is missing or a function in it fails.
func (t term) list() term {
	sound := t.sound()
	out := term{strict: t.value(), shape: listShape, given: sound, elements: t.elements, items: t.itemPlace()}
	switch {
	case t.shape == listShape && len(t.keys) == 0 && orYes(t.safe) == yes, sound == yes:
		out.expr = t.expr
	case t.simple() && orYes(t.safe) == yes:
		out.expr = member(t.optional().text + ".orValue([])")
	default:
		out.expr = member("(" + sound.within(bindsOr) + " ? " + t.value().within(bindsOr) + " : [])")
	}
	return out
}

// each returns the list that change makes of this list.
func (t term) each(change func(expr) expr) term {
	out := term{expr: change(t.expr), shape: listShape, given: t.given}
	if t.strict != (expr{}) && t.strict != t.expr {
		out.strict = change(t.strict)
	}
	return out
}

package patch

import (
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/jmespath"
)

// expansion turns an overlay into the plain patch for one resource.
type expansion struct {
	meter *budget.Meter
	in    *Merges // nil for a single overlay
	unmet bool    // a condition of the whole patch does not hold
	first string  // the path of the first condition that did not hold anywhere
	err   error
	env   jmespath.Env   // of conditions
	one   map[string]any // the member that a condition is about
}

func newExpansion(in *Merges, meter *budget.Meter) *expansion {
	return &expansion{meter: meter, in: in, env: jmespath.Env{Meter: meter}, one: map[string]any{}}
}

// done reports whether the result is decided.
func (x *expansion) done() bool { return x.unmet || x.err != nil }

// expand returns the plain patch for the value v of the resource, absent if nothing is to be done here.
func (x *expansion) expand(n *node, v any) any {
	switch {
	case n.items != nil:
		return x.list(n, v)
	case n.fields == nil:
		return n.plain
	}
	m, _ := v.(map[string]any)
	if err := x.meter.Step(len(n.fields)); err != nil {
		x.err = err
		return none
	}
	for i := range n.fields {
		f := &n.fields[i]
		if f.check != nil && !x.satisfies(f, m) {
			x.unmet = true
			if x.first == "" {
				x.first = f.at
			}
			return none
		}
	}
	out := make(map[string]any, len(n.fields))
	for i := range n.fields {
		f := &n.fields[i]
		if f.node == nil {
			continue
		}
		old, has := m[f.key]
		if !has {
			old = none
		}
		if f.anchor == addition && has {
			continue
		}
		made := x.expand(f.node, old)
		if x.done() {
			return none
		}
		if made == none {
			continue
		}
		out[f.key] = made
	}
	if len(out) == 0 {
		return none
	}
	return out
}

// satisfies evaluates one condition. An absent member satisfies no condition.
func (x *expansion) satisfies(f *field, m map[string]any) bool {
	v, has := m[f.key]
	if !has {
		return false
	}
	clear(x.one)
	x.one[f.key] = v
	fits, err := f.check.Fits(&x.env, x.one)
	if err != nil {
		x.err = err
	}
	return fits && err == nil
}

// list expands the elements of a patch list. An element with conditions, or an element without a name but with
// conditions in its own lists, is repeated for each element of the resource that satisfies them, under that element's
// name; elements without a name cannot be addressed and are skipped. Global conditions must hold for some element,
// otherwise the whole patch is dropped; a list without elements does not drop it, but an absent list does.
func (x *expansion) list(n *node, v any) any {
	elements, _ := v.([]any)
	out := make([]any, 0, len(n.items))
	for _, item := range n.items {
		if !item.conditional && (!item.deep || item.name != nil) {
			if made := x.expand(item, x.named(elements, item.name)); made != none {
				out = append(out, made)
			}
			if x.done() {
				return none
			}
			continue
		}
		met := false
		for _, e := range x.candidates(item, elements) {
			if err := x.meter.Step(1); err != nil {
				x.err = err
				return none
			}
			made := x.expand(item, e)
			if x.err != nil {
				return none
			}
			if x.unmet {
				x.unmet = false // only this element is not selected
				continue
			}
			met = true
			o, _ := e.(map[string]any)
			name, has := o["name"]
			change, isMap := made.(map[string]any) // not for a list within a list
			if !has || !isMap {
				continue
			}
			change["name"] = name
			out = append(out, change)
		}
		if !met && item.hasGlobal && (len(elements) > 0 || v == none) {
			x.unmet = true
			return none
		}
	}
	if len(out) == 0 {
		return none
	}
	return out
}

// candidates returns the elements that may satisfy the conditions of a patch element: all, unless one of the conditions
// is on a key by which elements are indexed.
func (x *expansion) candidates(item *node, elements []any) []any {
	for i := range item.fields {
		f := &item.fields[i]
		if f.word == "" {
			continue
		}
		if e, found, known := x.in.lookup(elements, f.key, f.word); known && found {
			return []any{e}
		} else if known {
			return nil
		}
	}
	return elements
}

// named finds the element that a patch element with that name patches.
func (x *expansion) named(elements []any, name any) any {
	if kindOf(name) != scalarKind {
		return none
	}
	if text, ok := name.(string); ok {
		if e, found, known := x.in.lookup(elements, "name", text); known && found {
			return e
		} else if known {
			return none
		}
	}
	for _, e := range elements {
		if o, ok := e.(map[string]any); ok && o["name"] == name {
			return e
		}
	}
	return none
}

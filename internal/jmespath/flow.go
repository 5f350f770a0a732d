package jmespath

import (
	"slices"

	"github.com/ephor-dev/ephor/internal/value"
)

// Reads adds to doc what the expression reads of the document it is evaluated on. Whoever keeps only that of a document,
// and all of its lists' items, gets the same result.
func (e *Expr) Reads(doc *value.Fields) { e.Flow(doc).Read() }

// Flow is Reads without the result itself: what the result is made of is returned, and is read as far as the caller says.
func (e *Expr) Flow(doc *value.Fields) *Part {
	n, err := parse(e.src, e.quoting)
	if err != nil {
		doc.ReadAll() // it was compiled of this
		return &Part{}
	}
	f := &flow{}
	out := f.walk(n, &Part{at: []*value.Fields{doc}})
	if f.places > maxPlaces {
		doc.ReadAll()
		return &Part{}
	}
	return out
}

// Part is what a value was taken from: places of the document, or a list or an object made of such.
type Part struct {
	at     []*value.Fields
	items  *Part            // of a list that was made
	fields map[string]*Part // of an object that was made
	size   int              // how many parts these are with all that they are made of; 0 for one
}

// Read says that the value is read as a whole.
func (p *Part) Read() {
	if p == nil {
		return
	}
	for _, f := range p.at {
		f.ReadAll()
	}
	p.items.Read()
	for _, f := range p.fields {
		f.Read()
	}
}

// Take says that of the value is read what of says.
func (p *Part) Take(of *value.Fields) {
	if p == nil || of == nil {
		return
	}
	for _, f := range p.at {
		f.Merge(of)
	}
	if of.All() {
		p.Read()
		return
	}
	p.items.Take(of.ItemsRead())
	for name, f := range p.fields {
		f.Take(of.Get(name))
	}
}

// Elements is what a foreach over the value goes through: the items of a list, or the value itself when it is none.
func (p *Part) Elements() *Part { return join(p, new(flow).itemsOf(p)) }

func join(parts ...*Part) *Part {
	out := &Part{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		for _, f := range p.at {
			if !slices.Contains(out.at, f) {
				out.at = append(out.at, f)
			}
		}
		if p.items != nil {
			out.items = join(out.items, p.items)
		}
		for name, f := range p.fields {
			if out.fields == nil {
				out.fields = map[string]*Part{}
			}
			out.fields[name] = join(out.fields[name], f)
		}
		out.size += 1 + p.size
	}
	return out
}

// flow follows the parts of a document through an expression.
type flow struct{ places int }

// maxPlaces bounds what an expression may lead to: [a, b][].[a, b][] doubles it with each step. One that leads to more
// reads everything.
const maxPlaces = 512

// count reports whether there may be n more places.
func (f *flow) count(n int) bool {
	f.places += n
	return f.places <= maxPlaces
}

// made is p, which was made of the parts: {a: @, b: @} | {a: @, b: @} doubles what it is made of with each step, too.
func (f *flow) made(p *Part, of ...*Part) *Part {
	for _, part := range of {
		p.size += 1 + part.size
	}
	if p.size > maxPlaces {
		f.places = maxPlaces + 1
		return &Part{}
	}
	return p
}

func (f *flow) fieldOf(p *Part, name string) *Part {
	out := &Part{}
	if p == nil || !f.count(1+len(p.at)) {
		return out
	}
	for _, d := range p.at {
		out.at = append(out.at, d.Member(name))
	}
	return join(out, p.fields[name])
}

func (f *flow) itemsOf(p *Part) *Part {
	out := &Part{}
	if p == nil || !f.count(1+len(p.at)) {
		return out
	}
	for _, d := range p.at {
		out.at = append(out.at, d.Items())
	}
	return join(out, p.items)
}

// list is a list whose items are made of the parts.
func (f *flow) list(items ...*Part) *Part {
	all := f.made(join(items...))
	return f.made(&Part{items: all}, all)
}

// walk returns what the value of n is made of when n is evaluated on at. What is looked at on the way is read.
func (f *flow) walk(n *node, at *Part) *Part {
	if f.places > maxPlaces {
		return &Part{}
	}
	switch n.kind {
	case nCurrent:
		return at
	case nField:
		return f.fieldOf(at, n.name)
	case nLiteral:
		return &Part{}
	case nSub, nPipe:
		return f.walk(n.right, f.walk(n.left, at))
	case nIndex:
		return f.itemsOf(f.walk(n.left, at))
	case nSlice:
		return f.list(f.itemsOf(f.walk(n.left, at)))
	case nFlatten:
		items := f.itemsOf(f.walk(n.left, at))
		return f.list(items, f.itemsOf(items))
	case nProject:
		return f.list(f.walk(n.right, f.itemsOf(f.walk(n.left, at))))
	case nFilter:
		items := f.itemsOf(f.walk(n.left, at))
		f.walk(n.cond, items).Read()
		return f.list(f.walk(n.right, items))
	case nValues:
		f.walk(n.left, at).Read()
		return &Part{} // what comes behind finds it read
	case nList:
		out := f.list()
		for _, item := range n.items {
			out = f.list(out.items, f.walk(item, at))
		}
		return out
	case nHash:
		out := &Part{fields: map[string]*Part{}}
		for i, item := range n.items {
			field := f.walk(item, at)
			out.fields[n.keys[i]] = field
			if out = f.made(out, field); out.fields == nil {
				return out
			}
		}
		return out
	case nOr, nAnd:
		left := f.walk(n.left, at)
		left.Read() // an empty object is false
		return f.made(join(left, f.walk(n.right, at)))
	case nExpref:
		return &Part{} // it is evaluated on the items of another argument, which is read
	}
	// Calls, negations and comparisons look at their operands and make something new.
	for _, operand := range append([]*node{n.left, n.right}, n.items...) {
		if operand != nil {
			f.walk(operand, at).Read()
		}
	}
	return &Part{}
}

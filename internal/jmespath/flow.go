package jmespath

import "ephor.invalid/ephor/internal/value"

// Reads adds to doc the parts of the document that the expression reads. A document that contains only these parts, and
// all items of its lists, gives the same result.
func (e *Expr) Reads(doc *value.Fields) { e.Flow(doc).Read() }

// Flow is Reads without the result itself: it returns the parts of which the result consists, and the caller decides how
// much of them is read.
func (e *Expr) Flow(doc *value.Fields) *value.Part {
	n, err := parse(e.src, e.quoting)
	if err != nil {
		doc.ReadAll() // it was compiled from this text
		return &value.Part{}
	}
	f := &flow{}
	out := f.walk(n, value.PartOf(doc))
	if f.Lost() {
		doc.ReadAll()
		return &value.Part{}
	}
	return out
}

// flow follows the parts of a document through an expression.
type flow struct{ value.Flow }

// walk returns the parts of which the value of n consists when n is evaluated on at. It marks as read what n examines on
// the way.
func (f *flow) walk(n *node, at *value.Part) *value.Part {
	if f.Lost() {
		return &value.Part{}
	}
	switch n.kind {
	case nCurrent:
		return at
	case nField:
		return f.Member(at, n.name)
	case nLiteral:
		return &value.Part{}
	case nSub, nPipe:
		return f.walk(n.right, f.walk(n.left, at))
	case nIndex:
		return f.Items(f.walk(n.left, at))
	case nSlice:
		return f.List(f.Items(f.walk(n.left, at)))
	case nFlatten:
		items := f.Items(f.walk(n.left, at))
		return f.List(items, f.Items(items))
	case nProject:
		return f.List(f.walk(n.right, f.Items(f.walk(n.left, at))))
	case nFilter:
		items := f.Items(f.walk(n.left, at))
		f.walk(n.cond, items).Read()
		return f.List(f.walk(n.right, items))
	case nValues:
		f.walk(n.left, at).Read()
		return &value.Part{} // the whole value is read already
	case nList:
		items := make([]*value.Part, len(n.items))
		for i, item := range n.items {
			items[i] = f.walk(item, at)
		}
		return f.List(items...)
	case nHash:
		members := make(map[string]*value.Part, len(n.items))
		for i, item := range n.items {
			members[n.keys[i]] = f.walk(item, at)
		}
		return f.Object(members)
	case nOr, nAnd:
		left := f.walk(n.left, at)
		left.Read() // an empty object counts as false
		return f.Join(left, f.walk(n.right, at))
	case nExpref:
		return &value.Part{} // it is evaluated on the items of another argument, which is marked as read
	}
	// Calls, negations and comparisons read their operands and create a new value.
	for _, operand := range append([]*node{n.left, n.right}, n.items...) {
		if operand != nil {
			f.walk(operand, at).Read()
		}
	}
	return &value.Part{}
}

package jmespath

import "github.com/ephor-dev/ephor/internal/value"

// Reads adds to doc what the expression reads of the document it is evaluated on. A document that keeps only these
// parts, and all items of its lists, gives the same result.
func (e *Expr) Reads(doc *value.Fields) { e.Flow(doc).Read() }

// Flow is Reads without the result itself: what the result is made of is returned, and is read as far as the caller says.
func (e *Expr) Flow(doc *value.Fields) *value.Part {
	n, err := parse(e.src, e.quoting)
	if err != nil {
		doc.ReadAll() // it was compiled of this
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

// walk returns what the value of n is made of when n is evaluated on at. What is looked at on the way is read.
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
		return &value.Part{} // what comes behind finds it read
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
		left.Read() // an empty object is false
		return f.Join(left, f.walk(n.right, at))
	case nExpref:
		return &value.Part{} // it is evaluated on the items of another argument, which is read
	}
	// Calls, negations and comparisons look at their operands and make something new.
	for _, operand := range append([]*node{n.left, n.right}, n.items...) {
		if operand != nil {
			f.walk(operand, at).Read()
		}
	}
	return &value.Part{}
}

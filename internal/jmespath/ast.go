package jmespath

type nodeKind int

const (
	nCurrent nodeKind = iota // @, and the implied left side of [0], [*], …
	nField
	nLiteral
	nSub        // a.b: right is evaluated on the result of left
	nPipe       // a | b: the same, but missing keys are tolerated and projections end
	nIndex      // left[number]
	nSlice      // left[start:stop:step]
	nFlatten    // left[]
	nProject    // right on each item of left
	nValues     // right on each value of the object left
	nFilter     // right on each item of left for which cond holds
	nList       // [a, b]
	nHash       // {k: a, l: b}
	nCall       // name(a, b)
	nExpref     // &a
	nOr         // a || b
	nAnd        // a && b
	nNot        // !a
	nComparison // a == b
)

// node is one node of the syntax tree.
type node struct {
	kind        nodeKind
	name        string   // field, function
	literal     any      // nLiteral
	number      int      // nIndex
	slice       [3]*int  // nSlice
	operator    kind     // nComparison
	keys        []string // nHash
	left, right *node
	cond        *node
	items       []*node // nList, nHash, nCall
	depth       int
}

// current is an implied left side; explicit is an @ in the text. They evaluate alike.
var (
	current  = &node{kind: nCurrent, depth: 1}
	explicit = &node{kind: nCurrent, depth: 1, name: "@"}
)

// measure sets the depth of a new node.
func (n *node) measure() *node {
	for _, c := range []*node{n.left, n.right, n.cond} {
		if c != nil {
			n.depth = max(n.depth, c.depth)
		}
	}
	for _, c := range n.items {
		n.depth = max(n.depth, c.depth)
	}
	n.depth++
	return n
}

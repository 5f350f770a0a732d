package jmespath

import "slices"

// Roots returns the names at the top of the document that the expression may read, sorted; "*" if it may read all of it.
func (e *Expr) Roots() []string {
	var out []string
	for _, p := range e.paths {
		name := "*"
		if len(p) > 0 {
			name = p[0]
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Paths returns the locations of the document that the expression may read, each as the longest chain of literal field names
// from the top: request.object.spec for request.object.spec.containers[].image is [request object spec containers]. Everything
// below a path may be read. An empty path is the whole document.
func (e *Expr) Paths() [][]string { return e.paths }

// findPaths walks the tree and tracks the part of the document on which each node is evaluated.
func findPaths(n *node) [][]string {
	w := &pathWalk{}
	w.read(w.walk(n, location{known: true}))
	return w.paths
}

// location is a part of the document, or some computed value.
type location struct {
	known bool
	path  []string
}

type pathWalk struct{ paths [][]string }

// read records that a location is read.
func (w *pathWalk) read(p location) {
	if !p.known || slices.ContainsFunc(w.paths, func(q []string) bool { return slices.Equal(p.path, q) }) {
		return
	}
	w.paths = append(w.paths, p.path)
}

// walk returns the location to which n evaluates when it is evaluated on at; it records what n reads on the way.
func (w *pathWalk) walk(n *node, at location) location {
	switch n.kind {
	case nCurrent:
		return at
	case nField:
		if !at.known {
			return location{}
		}
		return location{known: true, path: append(slices.Clip(at.path), n.name)}
	case nLiteral:
		return location{}
	case nSub, nPipe:
		left, before := w.walk(n.left, at), len(w.paths)
		out := w.walk(n.right, left)
		if !out.known && len(w.paths) == before {
			w.read(left) // the expression depends on whether it exists, even if not on its content
		}
		return out
	case nList, nHash, nCall:
		for _, item := range n.items {
			w.read(w.walk(item, at))
		}
		return location{}
	case nOr, nAnd, nComparison:
		w.read(w.walk(n.left, at))
		w.read(w.walk(n.right, at))
		return location{}
	case nNot:
		w.read(w.walk(n.left, at))
		return location{}
	case nExpref:
		// It is evaluated on the items of another argument.
		w.read(w.walk(n.left, location{}))
		return location{}
	}
	// Indexes, slices and projections: the list is read, and the right side is evaluated on its items.
	w.read(w.walk(n.left, at))
	for _, c := range []*node{n.right, n.cond} {
		if c != nil {
			w.read(w.walk(c, location{}))
		}
	}
	return location{}
}

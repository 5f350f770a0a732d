package pattern

import (
	"sort"

	"ephor.invalid/ephor/internal/wildcard"
)

// node is one compiled part of a pattern.
type node struct {
	kind   nodeKind
	field  string     // field path in the policy
	scalar Scalar     // scalarNode
	first  []mapEntry // mapNode: keys of the first phase, sorted by their full text
	second []mapEntry // mapNode: the other keys, those with anchors inside before those without
	tracks []mapEntry // mapNode: keys whose absence from the whole resource is recorded (see walk.note)
	items  []*node    // listNode: the elements

	slot    int       // variableNode: index of its value in walk.values
	at      *position // variableNode: its place in the pattern
	anchors bool      // variableNode: some key below it has an anchor
}

type nodeKind uint8

const (
	scalarNode nodeKind = iota
	mapNode
	listNode
	variableNode // stands for a value that is known only during a match
)

// mapEntry is one key of a pattern map with its value.
type mapEntry struct {
	anchor anchorKind
	key    string           // without the anchor
	full   string           // as written
	glob   bool             // key must be replaced by the actual key that it matches
	match  wildcard.Pattern // for key, if glob is set
	node   *node
}

// newMap sorts entries into the phases in which they are evaluated.
func newMap(entries []mapEntry) *node {
	n := &node{kind: mapNode}
	n.first, n.second = phases(entries)
	for _, e := range entries {
		switch e.anchor {
		case condition, existence:
			n.tracks = append(n.tracks, e)
		}
	}
	return n
}

// phases splits entries: conditions, equalities, existences and negations come first in the order of their full text; of the
// others, globals and those with anchors inside come before the plain ones.
func phases(entries []mapEntry) (first, second []mapEntry) {
	if len(entries) == 1 { // the most common case
		if entries[0].anchor.inFirstPhase() {
			return entries, nil
		}
		return nil, entries
	}
	sorted := append([]mapEntry(nil), entries...)
	sort.SliceStable(sorted, func(i, j int) bool { return sorted[i].full < sorted[j].full })
	var plain []mapEntry
	for _, e := range sorted {
		switch {
		case e.anchor.inFirstPhase():
			first = append(first, e)
		case e.anchor == global || e.node.hasAnchors():
			second = append([]mapEntry{e}, second...)
		default:
			plain = append(plain, e)
		}
	}
	return first, append(second, plain...)
}

// hasAnchors reports whether a key below n has an anchor.
func (n *node) hasAnchors() bool {
	switch n.kind {
	case mapNode:
		for _, list := range [2][]mapEntry{n.first, n.second} {
			for _, e := range list {
				if e.anchor != noAnchor || e.node.hasAnchors() {
					return true
				}
			}
		}
	case variableNode:
		return n.anchors
	case listNode:
		for _, item := range n.items {
			if item.hasAnchors() {
				return true
			}
		}
	}
	return false
}

// isMetadataMap reports whether the map below key (without anchors) of the map below parent is one whose keys may have
// wildcards.
func isMetadataMap(parent, key string) bool {
	return parent == "metadata" && (key == "labels" || key == "annotations")
}

package source

import (
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"ephor.invalid/ephor/internal/diag"
)

// positions finds lines of field paths. Few inputs have mistakes, so the document is parsed only when a position is
// requested.
type positions struct {
	doc  Document
	once sync.Once
	root *yaml.Node
	path string // path of the object inside the document: items[3] in a List
}

// at returns the position of a field path such as spec.rules[0].match, or /spec/rules/0/match. If the document does not
// have the field, it returns the position of the nearest parent.
func (p *positions) at(path string) diag.Position {
	p.once.Do(func() { p.root, _ = nodes(p.doc.text) })
	pos := diag.Position{File: p.doc.File, Line: p.doc.Line}
	if p.root == nil {
		return pos
	}
	n, at := p.root, p.root
	if p.path != "" {
		n, at = descend(n, p.path)
		if n == nil {
			n = p.root
		}
	}
	if path != "" && n != nil {
		_, at = descend(n, path)
	}
	return diag.Position{File: p.doc.File, Line: p.doc.base + at.Line, Column: at.Column}
}

// descend follows the path as far as it exists. It returns the value at the path (nil if the path does not exist) and
// the node to point at: the key of the last mapping entry, or the list element.
func descend(n *yaml.Node, path string) (value, at *yaml.Node) {
	at = n
	for {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		path = strings.TrimLeft(path, "./")
		if path == "" {
			return n, at
		}
		switch n.Kind {
		case yaml.MappingNode:
			i, rest := longestKey(n, path)
			if i < 0 {
				return nil, at
			}
			at, n, path = n.Content[i], n.Content[i+1], rest
		case yaml.SequenceNode:
			i, rest, ok := listIndex(path)
			if !ok || i >= len(n.Content) {
				return nil, at
			}
			n, path = n.Content[i], rest
			at = n
		default:
			return nil, at
		}
	}
}

// longestKey finds the entry whose key is a prefix of the path. Keys may contain dots and slashes, so the longest wins.
func longestKey(n *yaml.Node, path string) (index int, rest string) {
	index = -1
	best := -1
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := n.Content[i].Value
		r, ok := strings.CutPrefix(path, k)
		if !ok || len(k) <= best || r != "" && r[0] != '.' && r[0] != '/' && r[0] != '[' {
			continue
		}
		index, best, rest = i, len(k), r
	}
	return index, rest
}

// listIndex parses [3] or 3 at the beginning of the path.
func listIndex(path string) (i int, rest string, ok bool) {
	s := path
	if t, bracket := strings.CutPrefix(s, "["); bracket {
		digits, after, closed := strings.Cut(t, "]")
		i, err := strconv.Atoi(digits)
		return i, after, closed && err == nil && i >= 0
	}
	end := strings.IndexAny(s, "./[")
	if end < 0 {
		end = len(s)
	}
	i, err := strconv.Atoi(s[:end])
	return i, s[end:], err == nil && i >= 0
}

package pattern

import (
	"strconv"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/wildcard"
)

// compiler turns a raw pattern into nodes and collects the author's mistakes.
type compiler struct {
	diags diag.List
}

// compile compiles the pattern value v at field path; parent and key are the keys (without anchors) above it.
func (c *compiler) compile(v any, path, parent, key string, depth int) *node {
	if depth > budget.MaxDepth {
		c.diags.Errorf(path, "the pattern is nested more than %d levels deep", budget.MaxDepth)
		return &node{}
	}
	switch v := v.(type) {
	case map[string]any:
		return c.compileMap(v, path, parent, key, depth)
	case []any:
		n := &node{kind: listNode, items: make([]*node, len(v))}
		for i, item := range v {
			n.items[i] = c.compile(item, path+"["+strconv.Itoa(i)+"]", key, "", depth+1)
		}
		n.scalar.raw = v
		return n
	case nil, bool, string, int64, float64, int:
		return &node{kind: scalarNode, scalar: CompileScalar(v)}
	}
	c.diags.Errorf(path, "error at '%s', pattern contains unknown type", path)
	return &node{}
}

func (c *compiler) compileMap(m map[string]any, path, parent, key string, depth int) *node {
	entries := make([]entry, 0, len(m))
	for _, full := range sortedKeys(m) {
		child := m[full]
		at := path + "." + full
		anchor, bare := parseKey(full)
		e := entry{anchor: anchor, key: bare, full: full}
		switch anchor {
		case addition:
			c.diags.Errorf(at, "unsupported anchor %s", full)
		case existence:
			if list, ok := child.([]any); !ok {
				c.diags.Errorf(at, "existence anchor should have value of type list")
			} else if len(list) == 0 {
				c.diags.Errorf(at, "existence anchor: should have at least one value")
			}
		}
		if isMetadataMap(parent, key) && wildcard.Has(bare) {
			e.glob, e.match = true, wildcard.Compile(bare)
		}
		e.node = c.compile(child, at, key, bare, depth+1)
		entries = append(entries, e)
	}
	n := newMap(entries)
	n.scalar.raw = m
	return n
}

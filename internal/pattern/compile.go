package pattern

import (
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/template"
	"ephor.invalid/ephor/internal/wildcard"
	"maps"
	"slices"
)

// compiler compiles a raw pattern to nodes and collects the author's mistakes.
type compiler struct {
	diags     diag.List
	templates []*template.Template   // one for each slot
	late      bool                   // the value comes from variables: its texts are not searched for variables again
	allowance *compilecost.Allowance // nil at run time
	paths     int                    // total length of the paths so far, in bytes
}

// maxPaths bounds the total length of the paths of all parts: deeply nested long keys would make them far longer than
// the pattern itself.
const maxPaths = 16 << 20

// compile compiles the pattern value v.
func (c *compiler) compile(v any, at position) *node {
	n := c.node(v, at)
	n.field = at.field
	return n
}

func (c *compiler) node(v any, at position) *node {
	if at.depth > budget.MaxDepth {
		c.diags.Errorf(at.field, "the pattern is nested more than %d levels deep", budget.MaxDepth)
		c.diags.Hint("split the pattern into several rules, or use conditions")
		return &node{}
	}
	if c.paths += len(at.field) + len(at.errors); c.paths > maxPaths {
		if c.paths < 2*maxPaths { // reported once
			c.diags.Errorf("", "the pattern is too large: the paths of its parts have more than %d bytes together", maxPaths)
			c.diags.Hint("split the pattern into several rules")
		}
		c.paths = 2 * maxPaths
		return &node{}
	}
	switch v := v.(type) {
	case map[string]any:
		return c.object(v, at)
	case []any:
		n := &node{kind: listNode, items: make([]*node, len(v))}
		for i, item := range v {
			n.items[i] = c.compile(item, at.item(i))
		}
		return n
	case string:
		if !c.late && mayVary(v) {
			if n := c.variable(v, at); n != nil {
				return n
			}
		}
		return &node{kind: scalarNode, scalar: CompileScalar(v)}
	case nil, bool, int64, float64, int:
		return &node{kind: scalarNode, scalar: CompileScalar(v)}
	}
	c.diags.Errorf(at.field, "error at '%s', pattern contains unknown type", at.errors)
	c.diags.Hint("write a mapping, a list, a text, a number, a boolean or null")
	return &node{}
}

func (c *compiler) object(m map[string]any, at position) *node {
	keys := slices.Sorted(maps.Keys(m))
	if !c.late {
		for _, k := range keys {
			if mayVary(k) {
				if n := c.variable(m, at); n != nil {
					return n
				}
			}
		}
	}
	entries := make([]mapEntry, 0, len(m))
	for _, full := range keys {
		kind, bare := parseKey(full)
		below := at.under(full, bare)
		c.checkAnchor(kind, full, m[full], below)
		e := mapEntry{anchor: kind, key: bare, full: full}
		if isMetadataMap(at.parent, at.key) && wildcard.Has(bare) {
			e.glob, e.match = true, wildcard.Compile(bare)
		}
		e.node = c.compile(m[full], below)
		entries = append(entries, e)
	}
	return newMap(entries)
}

// checkAnchor reports mistakes in the use of anchors.
func (c *compiler) checkAnchor(kind anchorKind, full string, v any, at position) {
	switch kind {
	case addition:
		c.diags.Errorf(at.field, "unsupported anchor %s", full)
		c.diags.Hint("+() adds what is missing, which only mutation can do; to check a value only when it is there write =(%s)", full[2:len(full)-1])
	case existence:
		if list, ok := v.([]any); !ok {
			c.diags.Errorf(at.field, "existence anchor should have value of type list")
			c.diags.Hint("write a list with one pattern, as in ^(containers): [{image: \"a/*\"}]")
		} else if len(list) == 0 {
			c.diags.Errorf(at.field, "existence anchor: should have at least one value")
			c.diags.Hint("add the pattern that one element of the list has to fit")
		}
	}
}

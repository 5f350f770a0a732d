package patch

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/diag"
	"github.com/ephor-dev/ephor/internal/pattern"
)

// Overlay is a compiled strategic merge patch with anchors: `(key)` and `<(key)` decide
// whether the patch is for the resource, or for an element of a list; `+(key)` sets what is absent. It is immutable and
// safe for all goroutines.
type Overlay struct {
	root *node
}

// CompileOverlay prepares a patch whose variables have been substituted; v must not change afterwards. path is the field
// path for diagnostics, which are about the patterns behind conditions.
func CompileOverlay(v any, path string) (*Overlay, diag.List) {
	c := &compiler{}
	return &Overlay{root: c.node(v, path, 0)}, c.diags
}

// Apply returns the patched resource; it is v itself when there is nothing to change, such as when a condition does not
// hold. v is not modified. An error is a patch of another shape than the resource, or an exhausted budget.
func (o *Overlay) Apply(meter *budget.Meter, v any) (any, error) { return o.apply(nil, meter, v) }

// Apply is o.Apply for one of several overlays that are applied to v, each to what the one before it left: what was made on
// the way is changed in place.
func (in *Merges) Apply(meter *budget.Meter, o *Overlay, v any) (any, error) {
	return o.apply(in, meter, v)
}

// Unmet is the first condition of the patch that v does not fulfil, by its path in the patch, when the patch is not for v; empty when it is.
func (o *Overlay) Unmet(meter *budget.Meter, v any) string {
	x := &expansion{meter: meter}
	if p := x.expand(o.root, v); x.err != nil || !x.unmet && p != none {
		return ""
	}
	return x.first
}

func (o *Overlay) apply(in *Merges, meter *budget.Meter, v any) (any, error) {
	x := &expansion{meter: meter, in: in}
	p := x.expand(o.root, v)
	switch {
	case x.err != nil:
		return nil, x.err
	case x.unmet, p == none:
		p = map[string]any{} // merging nothing still puts lists in order, as in the reference
	}
	return in.merge(meter, v, p)
}

// anchor is the decoration of a patch key. Others than these are not decorations but part of the key.
type anchor uint8

const (
	noAnchor  anchor = iota
	condition        // (k)
	global           // <(k)
	addition         // +(k)
)

func parseKey(key string) (anchor, string) {
	n := len(key)
	if n < 3 || key[n-1] != ')' {
		return noAnchor, key
	}
	if key[0] == '(' {
		return condition, key[1 : n-1]
	}
	if n < 4 || key[1] != '(' {
		return noAnchor, key
	}
	switch key[0] {
	case '<':
		return global, key[2 : n-1]
	case '+':
		return addition, key[2 : n-1]
	}
	return noAnchor, key
}

// node is a part of a patch.
type node struct {
	// plain is the value of a part without anchors, already without its empty maps; absent when nothing is left.
	plain  any
	fields []field // of a map with anchors
	items  []*node // of a list with anchors
	// conditional: a condition stands in this map or in a map below it, lists not included.
	conditional bool
	// deep: a condition stands anywhere below, lists included.
	deep bool
	// hasGlobal: one of these conditions is a global one.
	hasGlobal bool
	// name is the name that an element of a list has, for finding the element that it patches.
	name any
}

type field struct {
	anchor anchor
	key    string
	node   *node
	check  *pattern.Pattern // of a condition; its node, when it has one, holds what it adds
	at     string           // where the patch has it, such as metadata.(name)
	word   string           // the only text that fulfils the condition; empty when there may be others
}

type compiler struct{ diags diag.List }

func (c *compiler) node(v any, path string, depth int) *node {
	if depth > budget.MaxDepth {
		c.diags.Errorf(path, "the patch is nested more than %d levels deep", budget.MaxDepth)
		return &node{plain: none}
	}
	if !anchored(v) {
		return &node{plain: withoutEmptyMaps(v)}
	}
	n := &node{}
	switch v := v.(type) {
	case map[string]any:
		n.name = v["name"]
		for _, full := range keysOf(v) {
			a, key := parseKey(full)
			f := field{anchor: a, key: key, at: path + "." + full}
			if a == condition || a == global {
				n.conditional, n.deep = true, true
				n.hasGlobal = n.hasGlobal || a == global
				f.check = c.check(key, withoutAdditions(v[full]), path+"."+full)
				f.word = word(v[full])
				if below := onlyAdditions(v[full], false); below != none {
					f.node = c.node(below, path+"."+full, depth+1)
				}
			} else {
				f.node = c.node(v[full], path+"."+full, depth+1)
				n.conditional = n.conditional || f.node.conditional && f.node.items == nil
				n.deep = n.deep || f.node.deep
				n.hasGlobal = n.hasGlobal || f.node.hasGlobal
			}
			n.fields = append(n.fields, f)
		}
	case []any:
		n.items = make([]*node, len(v))
		for i, e := range v {
			n.items[i] = c.node(e, path, depth+1)
			n.deep = n.deep || n.items[i].deep
			n.hasGlobal = n.hasGlobal || n.items[i].hasGlobal
		}
	}
	return n
}

// check makes the pattern for the member key of a map. Of a list one element must fit.
func (c *compiler) check(key string, v any, path string) *pattern.Pattern {
	if list, ok := v.([]any); ok && len(list) > 0 && kindOf(list[0]) == mapKind {
		key = "^(" + key + ")"
	}
	p, diags := pattern.Compile(map[string]any{key: v}, path)
	for _, d := range diags {
		d.Path = path
		c.diags.Add(d)
	}
	return p
}

// word is the pattern v when the only text that fits is v itself: the usual name, which is neither a wildcard nor a number,
// a quantity or a range, nor has operators.
func word(v any) string {
	s, ok := v.(string)
	if !ok || s == "" || s[0]|0x20 < 'a' || s[0]|0x20 > 'z' {
		return ""
	}
	for i := range len(s) {
		c := s[i]
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return ""
		}
	}
	switch strings.ToLower(s) {
	case "inf", "infinity", "nan", "true", "false", "null", "nil":
		return ""
	}
	return s
}

// A condition is only looked at, but for what it asks to add: `(emptyDir): {+(sizeLimit): 1Gi}` limits every emptyDir.
// withoutAdditions is what it compares, onlyAdditions what it adds.
func withoutAdditions(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			if a, _ := parseKey(k); a != addition {
				out[k] = withoutAdditions(e)
			}
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = withoutAdditions(e)
		}
		return out
	}
	return v
}

// onlyAdditions keeps the additions and the way to them; it is absent when there are none. In an element of a list the
// other keys choose the elements to add to.
func onlyAdditions(v any, inElement bool) any {
	switch x := v.(type) {
	case map[string]any:
		out := map[string]any{}
		found := false
		for k, e := range x {
			a, bare := parseKey(k)
			if a == addition {
				out[k], found = e, true
				continue
			}
			below := onlyAdditions(e, false)
			if below != none {
				out[bare], found = below, true
			}
			if inElement {
				out["("+bare+")"] = withoutAdditions(e)
			}
		}
		if found {
			return out
		}
	case []any:
		var out []any
		for _, e := range x {
			if below := onlyAdditions(e, true); below != none {
				out = append(out, below)
			}
		}
		if out != nil {
			return out
		}
	}
	return none
}

// anchored reports whether a key below v carries an anchor.
func anchored(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if a, _ := parseKey(k); a != noAnchor || anchored(e) {
				return true
			}
		}
	case []any:
		for _, e := range v {
			if anchored(e) {
				return true
			}
		}
	}
	return false
}

// withoutEmptyMaps is v without its empty maps, and without maps and lists that hold nothing else. An empty list that
// was written so stays. The result is absent when nothing is left.
func withoutEmptyMaps(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			if kept := withoutEmptyMaps(e); kept != none {
				out[k] = kept
			}
		}
		if len(out) == 0 {
			return none
		}
		return out
	case []any:
		out := make([]any, 0, len(x))
		for _, e := range x {
			if kept := withoutEmptyMaps(e); kept != none {
				out = append(out, kept)
			}
		}
		if len(out) == 0 && len(x) > 0 {
			return none
		}
		return out
	}
	return v
}

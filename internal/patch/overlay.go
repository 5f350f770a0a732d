package patch

import (
	"strings"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/pattern"
)

// Overlay is a compiled strategic merge patch with anchors: `(key)` and `<(key)` decide whether the patch applies to the resource, or to an
// element of a list; `+(key)` sets an absent value. It is immutable and safe for concurrent use.
type Overlay struct {
	root *node
}

// CompileOverlay compiles a patch whose variables have been substituted; v must not change afterwards. path is the field path for
// diagnostics, which are about the patterns in conditions.
func CompileOverlay(v any, path string) (*Overlay, diag.List) {
	c := &compiler{}
	return &Overlay{root: c.node(v, path, 0)}, c.diags
}

// Apply returns the patched resource; it is v itself if nothing changes, for example because a condition does not hold. It does not modify
// v. An error is for a patch of another shape than the resource, or an exhausted budget.
func (o *Overlay) Apply(meter *budget.Meter, v any) (any, error) { return o.apply(nil, meter, v) }

// Apply is o.Apply for one of several overlays that are applied to v in a row: it changes values that earlier ones created in place.
func (in *Merges) Apply(meter *budget.Meter, o *Overlay, v any) (any, error) {
	return o.apply(in, meter, v)
}

// Unmet returns the path, in the patch, of the first condition that v does not satisfy, if the patch does not apply to v; empty if it does.
func (o *Overlay) Unmet(meter *budget.Meter, v any) string {
	x := newExpansion(nil, meter)
	if p := x.expand(o.root, v); x.err != nil || !x.unmet && p != none {
		return ""
	}
	return x.first
}

func (o *Overlay) apply(in *Merges, meter *budget.Meter, v any) (any, error) {
	x := newExpansion(in, meter)
	p := x.expand(o.root, v)
	switch {
	case x.err != nil:
		return nil, x.err
	case x.unmet, p == none:
		p = map[string]any{} // an empty merge still normalizes lists, as in Kyverno
	}
	return in.merge(meter, v, p)
}

// anchor is the kind of anchor around a patch key. Other notations are not anchors but part of the key.
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
	// plain is the value of a part without anchors, with its empty maps removed; absent if nothing is left.
	plain  any
	fields []field // of a map with anchors
	items  []*node // of a list with anchors
	// conditional: there is a condition in this map or in a map below it, not counting lists.
	conditional bool
	// deep: there is a condition anywhere below, including lists.
	deep bool
	// hasGlobal: one of these conditions is global.
	hasGlobal bool
	// name is the name of a list element, to find the element that it patches.
	name any
}

type field struct {
	anchor anchor
	key    string
	node   *node
	check  *pattern.Pattern // for a condition; its node, if it has one, holds what it adds
	at     string           // its path in the patch, such as metadata.(name)
	word   string           // the only text that satisfies the condition; empty if there may be others
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

// check returns the pattern for the member key of a map. For a list, one element must match.
func (c *compiler) check(key string, v any, path string) *pattern.Pattern {
	if list, ok := v.([]any); ok && len(list) > 0 && kindOf(list[0]) == mapKind {
		key = "^(" + key + ")"
	}
	p, diags := pattern.CompileValue(map[string]any{key: v}, path)
	for _, d := range diags {
		d.Path = path
		c.diags.Add(d)
	}
	return p
}

// word returns the pattern v if v is the only text that matches: an ordinary name, which is not a wildcard, a number, a quantity or a
// range, and has no operators.
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

// withoutAdditions returns what a condition compares, onlyAdditions what it adds. A condition only compares, apart from the keys that it
// adds: `(emptyDir): {+(sizeLimit): 1Gi}` limits every emptyDir.
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

// onlyAdditions keeps the additions and the path to them; it is absent if there are none. In an element of a list, the other keys select
// the elements to add to.
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

// anchored reports whether a key below v has an anchor.
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

// withoutEmptyMaps returns v without its empty maps, and without maps and lists that contain nothing else. It keeps a list that was empty
// in the source. The result is absent if nothing is left.
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

package template

import (
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/jmespath"
)

// node is a part of the value that contains variables. Parts without variables have no node (nil).
type node interface {
	eval(r run) (any, error)
}

type compiler struct {
	t    *Template
	seen map[string]bool // roots that are already listed
	// allowance is nil for texts that are known only at run time.
	allowance *compilecost.Allowance
}

// value compiles v; the result is nil if v contains no variables.
func (c *compiler) value(v any, at position) node {
	if at.depth > budget.MaxDepth {
		c.t.diags.Errorf(at.path, "%s", errTooDeep)
		return failure{errTooDeep}
	}
	switch v := v.(type) {
	case string:
		return c.text(v, at)
	case map[string]any:
		return c.object(v, at)
	case []any:
		return c.list(v, at)
	}
	return nil
}

func (c *compiler) object(m map[string]any, at position) node {
	var o *object
	for _, k := range slices.Sorted(maps.Keys(m)) {
		below := at.key(k)
		key, val := c.text(k, below), c.value(m[k], below)
		if key == nil && val == nil {
			continue
		}
		if o == nil {
			o = &object{source: m}
		}
		o.members = append(o.members, member{name: k, key: key, val: val})
	}
	if o == nil {
		return nil
	}
	return o
}

func (c *compiler) list(l []any, at position) node {
	var out *list
	for i, e := range l {
		if n := c.value(e, at.index(i)); n != nil {
			if out == nil {
				out = &list{source: l}
			}
			out.items = append(out.items, item{i, n})
		}
	}
	if out == nil {
		return nil
	}
	return out
}

// addExpression records an expression for the analysis of what the template reads.
func (c *compiler) addExpression(e *jmespath.Expr) {
	c.t.expressions = append(c.t.expressions, e)
	for _, r := range e.Roots() {
		c.noteRoot(r)
	}
}

func (c *compiler) noteRoot(r string) {
	if !c.seen[r] {
		c.seen[r] = true
		c.t.roots = append(c.t.roots, r)
	}
}

// object is a map in which some keys or values contain variables.
type object struct {
	source  map[string]any
	members []member // members with variables, sorted by name
}

type member struct {
	name string
	key  node // nil: the name itself
	val  node // nil: the value of the source
}

func (o *object) eval(r run) (any, error) {
	if err := r.meter().Step(1 + len(o.source)); err != nil {
		return nil, err
	}
	out := maps.Clone(o.source)
	for _, m := range o.members {
		if m.key != nil {
			delete(out, m.name)
		}
	}
	for _, m := range o.members {
		val := o.source[m.name]
		if m.val != nil {
			v, err := m.val.eval(r)
			if err != nil {
				return nil, err
			}
			val = v
		}
		name := m.name
		if m.key != nil {
			k, err := m.key.eval(r)
			if err != nil {
				return nil, err
			}
			if err := r.charge(k); err != nil {
				return nil, err
			}
			name = textOf(k)
		}
		out[name] = val
	}
	return out, nil
}

// list is a list in which some elements contain variables.
type list struct {
	source []any
	items  []item
}

type item struct {
	i   int
	val node
}

func (l *list) eval(r run) (any, error) {
	if err := r.meter().Step(1 + len(l.source)); err != nil {
		return nil, err
	}
	out := slices.Clone(l.source)
	for _, e := range l.items {
		v, err := e.val.eval(r)
		if err != nil {
			return nil, err
		}
		out[e.i] = v
	}
	return out, nil
}

// failure is a part that cannot be evaluated.
type failure struct{ err error }

func (f failure) eval(run) (any, error) { return nil, f.err }

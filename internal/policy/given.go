package policy

import (
	"maps"
	"strings"
)

// Given are values of variables that stand in for what a rule would find out otherwise: the command line reads them from
// values files. A Given is immutable.
type Given struct {
	// Names hold values by the first name of the variable: {"cm": {"data": {…}}} for cm.data. A value wins over a
	// context entry of its name, which is not loaded then; where the engine itself knows the name (request, images) the
	// two are merged, key by key.
	Names map[string]any
	// Elements gives values for one element of a foreach, by its position; they win over Names. A value for element is
	// merged with the element. Nil when there are none.
	Elements func(index int) map[string]any
}

// value is what was given for the name, if anything was.
func (g *Given) value(name string) (any, bool) {
	if g == nil {
		return nil, false
	}
	v, ok := g.Names[name]
	return v, ok
}

// Merge is base with the keys of over put over it, map by map; anything but two maps is replaced. Neither is changed.
func Merge(base, over any) any {
	b, ok := base.(map[string]any)
	o, also := over.(map[string]any)
	if !ok || !also {
		return over
	}
	out := maps.Clone(b)
	for k, v := range o {
		if old, has := out[k]; has {
			v = Merge(old, v)
		}
		out[k] = v
	}
	return out
}

// Element is the scope for the element at that position of a foreach, which is bound already: with the values that were
// given for it. Without such values it is s itself.
func (s *Scope) Element(index int) *Scope {
	if s.given == nil || s.given.Elements == nil {
		return s
	}
	names := s.given.Elements(index)
	if len(names) == 0 {
		return s
	}
	given := &Given{Names: maps.Clone(s.given.Names), Elements: s.given.Elements}
	if given.Names == nil {
		given.Names = map[string]any{}
	}
	out := s
	for name, v := range names {
		if strings.HasPrefix(name, "element") {
			if bound, ok, err := s.Field(name); ok && err == nil {
				v = Merge(bound, v)
			}
		} else {
			v = Merge(given.Names[name], v)
			given.Names[name] = v
		}
		out = out.With(name, v)
	}
	out.given = given // out is a new scope, since there are names
	return out
}

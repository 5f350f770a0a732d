package scope

import (
	"maps"
	"strings"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// Element returns the scope for the element at that position of a foreach, with the values that the user gave for it on the command line.
// Without such values it returns s.
func (s *Scope) Element(index int) *Scope {
	if s.given == nil || s.given.Elements == nil {
		return s
	}
	names := s.given.Elements(index)
	if len(names) == 0 {
		return s
	}
	given := &policy.Given{Names: maps.Clone(s.given.Names), Elements: s.given.Elements}
	if given.Names == nil {
		given.Names = map[string]any{}
	}
	out := s
	for name, v := range names {
		if strings.HasPrefix(name, "element") {
			if bound, ok, err := s.Field(name); ok && err == nil {
				v = value.Merge(bound, v)
			}
		} else {
			v = value.Merge(given.Names[name], v)
			given.Names[name] = v
		}
		out = out.With(name, v)
	}
	out.given = given // With returned a new scope, since there is at least one name
	return out
}

package patch

import (
	"maps"
	"slices"
)

// Edits remembers the maps and lists that were made while patches were applied one after the other. They are not shared
// yet, so that the next patch may change them in place: a loop over a list would otherwise copy the whole list for each
// of its elements. The zero Edits is empty and ready; it must not outlive the moment at which the patched value is shown
// to other code.
type Edits struct {
	lists map[*any]struct{}          // by their first element
	maps  map[uintptr]map[string]any // by identity, and kept alive, so that no other gets the same one
}

// forget makes everything be copied again.
func (e *Edits) forget() { *e = Edits{} }

// listOf is c itself when it may be changed, else a copy that may.
func (e *Edits) listOf(c []any) []any {
	if len(c) == 0 {
		return slices.Clone(c)
	}
	if _, own := e.lists[&c[0]]; own {
		return c
	}
	out := slices.Clone(c)
	if e.lists == nil {
		e.lists = map[*any]struct{}{}
	}
	e.lists[&out[0]] = struct{}{}
	return out
}

// mapOf is c itself when it may be changed, else a copy that may.
func (e *Edits) mapOf(c map[string]any) map[string]any {
	if _, own := e.maps[identity(c)]; own {
		return c
	}
	out := maps.Clone(c)
	if out == nil {
		out = map[string]any{}
	}
	if e.maps == nil {
		e.maps = map[uintptr]map[string]any{}
	}
	e.maps[identity(out)] = out
	return out
}

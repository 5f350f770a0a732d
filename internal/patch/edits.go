package patch

import (
	"maps"
	"slices"
)

// Edits records the maps and lists that were created while several patches were applied in a row. They are not shared
// yet, so the next patch may change them in place: otherwise a loop over a list would copy the whole list for each of
// its elements. The zero Edits is empty and ready; it must not be used after the patched value was passed to other code.
type Edits struct {
	lists map[*any]struct{}          // by their first element
	maps  map[uintptr]map[string]any // by identity; the entry keeps the map alive, so that no other map gets the same identity
}

// forget makes later changes copy everything again.
func (e *Edits) forget() { *e = Edits{} }

// listOf returns c itself if it may be changed, otherwise a copy.
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

// mapOf returns c itself if it may be changed, otherwise a copy.
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

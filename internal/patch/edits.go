package patch

import (
	"maps"
	"slices"

	"ephor.invalid/ephor/internal/budget"
)

// Edits records the maps and lists that were created while several patches were applied in a row. They are not shared
// yet, so the next patch may change them in place: otherwise a loop over a list would copy the whole list for each of
// its elements. The zero Edits is empty and ready; it must not be used after the patched value was passed to other code.
type Edits struct {
	meter *budget.Meter              // of the patch that is being applied
	lists map[*any]struct{}          // by their first element
	maps  map[uintptr]map[string]any // by identity; the entry keeps the map alive, so that no other map gets the same identity
}

// forget makes later changes copy everything again.
func (e *Edits) forget() { *e = Edits{meter: e.meter} }

// movedPerStep is the number of elements of a list that are copied or moved in a step. The others are the cost of copying one, and a member of
// a map.
const movedPerStep, elementBytes, memberSteps, memberBytes = 4, 4, 4, 12

// moves charges for n elements of a list that are moved.
func (e *Edits) moves(n int) error { return e.meter.Step(n / movedPerStep) }

// listOf returns c itself if it may be changed, otherwise a copy.
func (e *Edits) listOf(c []any) ([]any, error) {
	if len(c) == 0 {
		return slices.Clone(c), nil
	}
	if _, own := e.lists[&c[0]]; own {
		return c, nil
	}
	if err := e.moves(len(c)); err != nil {
		return nil, err
	}
	if err := e.meter.Bytes(elementBytes * len(c)); err != nil {
		return nil, err
	}
	return e.own(slices.Clone(c)), nil
}

// own records that a list, which is not empty, may be changed.
func (e *Edits) own(c []any) []any {
	if e.lists == nil {
		e.lists = map[*any]struct{}{}
	}
	e.lists[&c[0]] = struct{}{}
	return c
}

// mapOf returns c itself if it may be changed, otherwise a copy.
func (e *Edits) mapOf(c map[string]any) (map[string]any, error) {
	if _, own := e.maps[identity(c)]; own {
		return c, nil
	}
	if err := e.meter.Step(memberSteps * len(c)); err != nil {
		return nil, err
	}
	if err := e.meter.Bytes(memberBytes * len(c)); err != nil {
		return nil, err
	}
	out := maps.Clone(c)
	if out == nil {
		out = map[string]any{}
	}
	if e.maps == nil {
		e.maps = map[uintptr]map[string]any{}
	}
	e.maps[identity(out)] = out
	return out, nil
}

package convert

import (
	"slices"
	"strings"

	"ephor.invalid/ephor/internal/value"
)

// mapOfPatch returns the map that a variable puts at a place of a merge patch; ok is false for other values. Its keys are merged with those that the
// place has, as if the patch wrote them.
func (p *patching) mapOfPatch(v any, names []string, path string) (t term, ok bool) {
	s, _ := v.(string)
	if _, whole := wholeVariable(s); !whole || !strings.Contains(path, ".patchStrategicMerge") {
		return t, false
	}
	if t, ok = p.operand(s, path); !ok || t.shape != mapShape && (t.shape != anyShape || p.typeAt(p.ofTrail(), names) != "map") {
		return t, false
	}
	return t, true
}

// constantMap returns the map of a constant of the context, without variables and conditions.
func (p *patching) constantMap(v any, path string) (map[string]any, bool) {
	s, _ := v.(string)
	name, whole := wholeVariable(s)
	m, is := p.entries[strings.TrimSpace(name)].constant.(map[string]any)
	if !whole || !is || !strings.Contains(path, ".patchStrategicMerge") || strings.Contains(value.JSON(m), "{{") {
		return nil, false
	}
	for k := range m {
		if anchor, _ := patchAnchor(k); anchor != "" {
			return nil, false
		}
	}
	return m, true
}

// mergeVariable returns the operations that merge the map of a variable into the map at a place.
func (p *patching) mergeVariable(t term, place location, path string) []string {
	if inner := p.typeAt(p.ofTrail(), append(slices.Clip(place.names), "x")); inner == "" || inner == "map" || inner == "list" {
		p.note(path, "maps and lists inside of the variable replace those of the resource, where the classic rule merges them", "write the keys in the patch")
	}
	key := p.fresh("key")
	at, there := t.value().at(key), place.named(expr{key, bindsMember})
	add := strings.Trim(there.operation("add", at.text), "[]")
	merged, made := t.value().within(bindsMember)+".map("+key+", "+add+")", t.value().text
	if p.nulls() { // remove what the resource has
		kept := at.text + " != null"
		merged = "(" + t.value().within(bindsMember) + ".map(" + key + ", " + kept + ", " + add + ") + " + t.value().within(bindsMember) + ".map(" + key + ", " +
			at.text + " == null && " + there.there.within(bindsAnd) + ", " + strings.Trim(there.operation("remove", ""), "[]") + "))"
		made = withoutNulls(p, t.value())
	}
	added := either(comparison("size("+t.value().text+") > 0"), place.operation("add", made), noOperation)
	return []string{either(place.there, merged, added)}
}

// withoutNulls returns a map without the keys whose value is null.
func withoutNulls(p *patching, of expr) string {
	key, kept := p.fresh("key"), p.fresh("e")
	return of.within(bindsMember) + ".transformMap(" + key + ", " + kept + ", " + kept + " != null, " + kept + ")"
}

// nulls reports whether the rule writes a null, which may be in its maps.
func (p *patching) nulls() bool {
	r := p.policy.Spec.Rules[p.index]
	for _, e := range r.Context {
		if strings.Contains(value.JSON(document(&e)), "null") {
			return true
		}
	}
	return strings.Contains(value.JSON(document(r.Mutation)), "null")
}

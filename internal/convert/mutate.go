package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/jsonpointer"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/value"
)

// mutation converts the mutate block of a rule to one JSON patch, whose operations depend on the object.
func (c *converter) mutation(r *kyvernov1.Rule, spec map[string]any) {
	m, path := r.Mutation, c.path+".mutate"
	if len(m.Targets) > 1 && slices.ContainsFunc(m.Targets, func(t kyvernov1.TargetResourceSpec) bool { return t.RawAnyAllConditions != nil || len(t.Context) > 0 }) {
		c.eachTarget(r, spec)
		return
	}
	if len(m.Targets) > 0 {
		if c.targets(r, spec); len(c.reasons) > 0 {
			return
		}
	}
	var all []string
	switch {
	case len(m.ForEachMutation) > 0:
		for i := range m.ForEachMutation {
			operations := c.mutateLoop(&m.ForEachMutation[i], fmt.Sprintf("%s.foreach[%d]", path, i))
			if len(c.once) > 0 {
				some := c.fresh("operations")
				operations = "[" + operations + "].map(" + some + ", size(" + some + ") > 0 ? " + sum(c.once) + " + " + some + " : []).flatten()"
				c.once = nil
			}
			if i > 0 && c.inPods() {
				operations = c.later(operations)
			}
			all = append(all, operations)
		}
	default:
		before := len(c.demands)
		operations := c.patches(m.RawPatchStrategicMerge != nil, func() (any, bool) { return c.decode(m.RawPatchStrategicMerge, path+".patchStrategicMerge") }, m.PatchesJSON6902, path).list()
		all = append(all, c.demanding(operations, c.demands[before:], spec))
		c.demands = c.demands[:before]
	}
	var mutations []any
	for _, operations := range all {
		mutations = append(mutations, map[string]any{"patchType": "JSONPatch", "jsonPatch": map[string]any{"expression": operations}})
	}
	spec["mutations"] = mutations
}

// demanding returns operations that are an error where a variable inside of a variable is missing, even if a list is empty whose elements are compared
// with it. The conditions of the policy may have read it before.
func (c *converter) demanding(operations string, demands []string, spec map[string]any) string {
	conditions := value.JSON(spec["matchConditions"])
	for _, d := range demands {
		if loops().MatchString(operations) && !strings.Contains(conditions, d) && !strings.HasPrefix(operations, d) {
			operations = d + " != null ? (" + operations + ") : []"
		}
	}
	return operations
}

// later returns the operations of a loop that follows others. Variables keep the object as it was before the first mutation, so that the
// loop reads the Pod from the object.
func (c *converter) later(operations string) string {
	for _, v := range c.variables {
		if m := v.(map[string]any); m["name"] == "pod" {
			return "cel.bind(pod, " + m["expression"].(string) + ", " + strings.ReplaceAll(operations, c.changed.text, "pod") + ")"
		}
	}
	return operations
}

// eachTarget converts a rule with several targets, some of which have conditions of their own, to a policy for each target.
func (c *converter) eachTarget(r *kyvernov1.Rule, spec map[string]any) {
	common, before := maps.Clone(spec), *c
	for i := range r.Mutation.Targets {
		one, with, of := *r, *r.Mutation, maps.Clone(common)
		with.Targets = r.Mutation.Targets[i : i+1]
		one.Mutation = &with
		if evaluation, ok := common["evaluation"].(map[string]any); ok {
			of["evaluation"] = maps.Clone(evaluation)
		}
		c.object, c.changed, c.matched, c.entries = before.object, before.changed, before.matched, before.entries
		c.mutation(&one, of)
		if i == 0 {
			maps.Copy(spec, of)
			continue
		}
		c.more = append(c.more, c.assembled("MutatingPolicy", fmt.Sprintf("%s-%d", c.name(r), i+1), c.policy.Kind == "Policy", of))
	}
}

// patches converts one of the two forms of patches.
func (c *converter) patches(merge bool, decoded func() (any, bool), operations, path string) *patching {
	p := &patching{converter: c, when: yes}
	root := location{at: c.changed}
	if c.inPods() {
		root.path = []segment{{dynamic: "variables.path"}}
	}
	switch {
	case merge:
		raw, ok := decoded()
		m, isMap := raw.(map[string]any)
		if !ok || !isMap {
			c.refuse(path+".patchStrategicMerge", "the patch is not an object", "")
			return p
		}
		p.operations = p.mergeMap(m, root, path+".patchStrategicMerge")
	case operations != "":
		p.operations = p.json(operations, root, path+".patchesJson6902")
	default:
		c.refuse(path, "the rule changes nothing", "")
	}
	return p
}

// mutateLoop converts a loop: the patches for each element.
func (c *converter) mutateLoop(l *kyvernov1.ForEachMutation, path string) string {
	all, ok := c.search(strings.TrimSpace(l.List), path+".list")
	if !ok {
		return ""
	}
	i := c.fresh("i")
	around, placed, of, at, entries := c.element, c.elementPlace, c.elementShape, c.position, maps.Clone(c.entries)
	list := all.expr // a missing list is an error, as in the classic language
	c.element, c.elementPlace, c.elementShape, c.position = member(list.within(bindsMember)+"["+i+"]"), all.itemPlace(), all.elements, member(i)
	c.outer = append(c.outer, loop{c.element, c.position})
	if strings.Contains(l.List, ".[") && strings.Contains(l.PatchesJSON6902, "elementIndex") {
		c.note(path+".patchesJson6902", "elementIndex counts the elements of several lists: past the end of the changed one the classic rule adds elements, and the policy in CEL ends in an error", "write a loop for each list")
	}
	c.context(l.Context, path+".context")
	merge := l.RawPatchStrategicMerge != nil
	partial := c.partial
	c.partial = partial || l.AnyAllConditions != nil || l.Order != nil && *l.Order == kyvernov1.Ascending
	var p *patching
	var common map[string]any
	if len(l.ForEachMutation) > 0 {
		p = &patching{converter: c, when: yes}
		for n := range l.ForEachMutation {
			p.operations = append(p.operations, c.mutateLoop(&l.ForEachMutation[n], fmt.Sprintf("%s.foreach[%d]", path, n)))
		}
	} else {
		p = c.patches(merge, func() (any, bool) {
			raw, ok := c.decode(l.RawPatchStrategicMerge, path+".patchStrategicMerge")
			if m, isMap := raw.(map[string]any); ok && isMap && len(l.Context) == 0 {
				raw, common = apart(m)
			}
			return raw, ok
		}, l.PatchesJSON6902, path)
	}
	if conditions := l.AnyAllConditions; conditions != nil {
		p.when = and(c.conditions(document(conditions), path+".preconditions"), p.when)
	}
	descending := l.Order != nil && *l.Order == kyvernov1.Descending || l.Order == nil && merge
	moves := c.moves(p, list, i, descending)
	if len(common) > 0 { // what is the same for all elements is merged once
		at := c.position
		c.position = expr{}
		once := c.patches(true, func() (any, bool) { return common, true }, "", path)
		c.position = at
		some := comparison("size(" + list.text + ") > 0")
		if p.when != yes {
			some = member("lists.range(size("+list.text+"))").macro("exists", i, p.when)
		}
		once.when = and(some, once.when)
		moves += " + (" + once.list() + ")"
	}
	c.element, c.elementPlace, c.elementShape, c.position, c.entries, c.partial = around, placed, of, at, entries, partial
	c.outer = c.outer[:len(c.outer)-1]
	order := "lists.range(size(" + list.text + "))"
	if descending {
		order += ".reverse()"
	}
	return order + ".map(" + i + ", " + p.list() + ").flatten()" + moves
}

// apart splits a patch into the part that an element of a loop decides, and the rest.
func apart(m map[string]any) (each, common map[string]any) {
	each, common = map[string]any{}, map[string]any{}
	if conditional(m) {
		return m, nil
	}
	for k, v := range m {
		nested, isMap := v.(map[string]any)
		source := value.JSON(map[string]any{k: v})
		switch {
		case !strings.Contains(source, "element") && !strings.Contains(source, "<("):
			common[k] = v
		case isMap && !strings.Contains(k, "("):
			a, b := apart(nested)
			if len(a) > 0 {
				each[k] = a
			}
			if len(b) > 0 {
				common[k] = b
			}
		default:
			each[k] = v
		}
	}
	return each, common
}

// moves returns the operations that move the elements that a loop merged to the front, as the classic patch of each element does; empty if all
// elements are there.
func (c *converter) moves(p *patching, list expr, i string, descending bool) string {
	if len(p.reordered) == 0 || descending && p.when == yes {
		return ""
	}
	at, to := p.reordered[0], p.fresh("to")
	merged := "lists.range(size(" + list.text + "))"
	if p.when != yes {
		merged += ".filter(" + i + ", " + p.when.text + ")"
	}
	place := "'/0'"
	if descending {
		place = "'/' + string(" + to + ")"
	}
	path := at.pathText()
	return " + [" + merged + "].map(" + i + ", lists.range(size(" + i + ")).map(" + to + ", JSONPatch{op: 'move', from: " + path + " + '/' + string(" + i + "[" + to + "]), path: " + path + " + " + place + "})).flatten()"
}

// patching collects the operations of one patch.
type patching struct {
	*converter
	when       expr     // the condition for the whole patch
	operations []string // expressions for lists of operations
	// reordered is the list whose elements a loop puts first; none or one.
	reordered []location
}

const noOperation = "[]"

// list returns the expression for the list of all operations.
func (p *patching) list() string {
	out := sum(p.operations)
	if p.when != yes {
		return p.when.within(bindsOr) + " ? " + out + " : " + noOperation
	}
	return out
}

// sum concatenates lists of operations. It joins adjacent literal lists into one.
func sum(lists []string) string {
	var out []string
	for _, l := range lists {
		if n := len(out); n > 0 && written(l) && written(out[n-1]) {
			out[n-1] = strings.TrimSuffix(out[n-1], "]") + ", " + strings.TrimPrefix(l, "[")
			continue
		}
		out = append(out, l)
	}
	if len(out) == 0 {
		return noOperation
	}
	return strings.Join(out, " + ")
}

func written(list string) bool { return strings.HasPrefix(list, "[JSONPatch{") }

// either returns an expression that selects one of two lists by a condition.
func either(condition expr, then, otherwise string) string {
	if then == otherwise {
		return then
	}
	return "(" + condition.within(bindsOr) + " ? " + then + " : " + otherwise + ")"
}

// location is a place in the object: its value, and its path in a patch.
type location struct {
	at    expr
	path  []segment
	names []string // the path from the root; an empty name stands for the elements of a list
	there expr     // the condition that its map has the key
}

// segment is a part of a path: text, or an expression for text.
type segment struct{ static, dynamic string }

func (l location) with(at expr, s segment, name string) location {
	return location{at, append(slices.Clip(l.path), s), append(slices.Clip(l.names), name), yes}
}

// key returns the place of a key of a map.
func (l location) key(key string) location {
	out := l.with(l.at.field(key), segment{static: "/" + jsonpointer.Escape(key)}, key)
	out.there = l.at.has(key)
	return out
}

// named returns the place of a key of a map that an expression names.
func (l location) named(key expr) location {
	out := l.with(l.at.at(key.text), segment{static: "/"}, "*")
	out.path = append(out.path, segment{dynamic: "jsonpatch.escapeKey(" + key.text + ")"})
	out.there = comparison(key.within(bindsUnary) + " in " + l.at.within(bindsUnary))
	return out
}

// element returns the place of the list element whose index a variable holds.
func (l location) element(position string) location {
	out := l.with(l.at.at(position), segment{static: "/"}, "")
	out.path = append(out.path, segment{dynamic: "string(" + position + ")"})
	return out
}

// pathText returns the path as an expression.
func (l location) pathText() string {
	var parts []string
	static := ""
	for _, s := range l.path {
		if s.dynamic == "" {
			static += s.static
			continue
		}
		if static != "" {
			parts, static = append(parts, text(static)), ""
		}
		parts = append(parts, s.dynamic)
	}
	if static != "" || len(parts) == 0 {
		parts = append(parts, text(static))
	}
	return strings.Join(parts, " + ")
}

func (l location) operation(op, value string) string {
	if value != "" {
		value = ", value: " + value
	}
	return "[JSONPatch{op: '" + op + "', path: " + l.pathText() + value + "}]"
}

// mergeKeys returns the keys by which the elements of the list at a place are merged. merged is false for lists that a patch replaces.
func (p *patching) mergeKeys(at location, path string) (keys []string, merged bool) {
	kinds := p.matched
	if p.inPods() {
		kinds = kinds[:min(1, len(kinds))] // the Pod, which is the template in the others
	}
	for i, k := range kinds {
		version, kind := k.GroupVersion().String(), k.Kind
		if kind == "*" || k.Group == "*" || k.Version == "*" {
			p.refuse(path, "whether the list is merged or replaced depends on the kind, which is a wildcard", "name the kinds")
			return nil, false
		}
		of, is, _ := patch.MergeKeys(version, kind, at.names...)
		switch {
		case is && len(of) == 0:
			p.refuse(path, "a list that is merged without keys is not converted", "write JSON patches")
			return nil, false
		case i > 0 && (is != merged || !slices.Equal(of, keys)):
			p.refuse(path, "the list is merged in another way in each of the kinds", "split the rule")
			return nil, false
		}
		keys, merged = of, is
	}
	return keys, merged
}

package convert

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ephor.invalid/ephor/internal/pattern"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// mergeMap returns the operations that merge a map of a patch into the map at a place.
func (p *patching) mergeMap(m map[string]any, at location, path string) (out []string) {
	defer p.standing(expr{})() // for anchors
	for _, full := range slices.Sorted(maps.Keys(m)) {
		anchor, key := patchAnchor(full)
		below, v := path+"."+full, m[full]
		place := at.key(key)
		switch {
		case strings.Contains(key, "{{") && (anchor == "" || anchor == "+"):
			t, ok := p.operand(key, below)
			if !ok {
				continue
			}
			place = at.named(t.value())
		case strings.Contains(key, "{{"):
			p.refuse(below, "a variable in an anchor of a patch is not converted", "")
			continue
		case wildcard.Has(key):
			p.refuse(below, "a key with wildcards in a patch is not converted", "")
			continue
		}
		switch anchor {
		case "(", "<":
			p.when = and(p.when, p.present(at), p.applies(key, v, at, below))
		case "+":
			before := p.heard
			p.heard = &[]expr{}
			literal, ok := p.literal(v, below)
			given := and(*p.heard...)
			p.heard = before
			kept := noOperation
			if given != yes { // a missing variable is an error, even if its part is not used
				kept = "(" + given.within(bindsOr) + " ? " + noOperation + " : [[]][1])"
			}
			if ok {
				out = append(out, either(place.there, kept, p.unlessNull(v, below, place.operation("add", literal), noOperation)))
			}
		case "":
			out = append(out, p.mergeValue(v, place, below)...)
		default: // other anchors have no meaning in a patch: the classic language writes them into the object
			out = append(out, p.mergeValue(v, at.key(full), below)...)
		}
	}
	return out
}

// patchAnchor splits a key of a patch into its anchor and its name.
func patchAnchor(full string) (anchor, key string) {
	if rest, ok := strings.CutPrefix(full, "+("); ok && strings.HasSuffix(rest, ")") {
		return "+", strings.TrimSuffix(rest, ")")
	}
	return pattern.Anchor(full)
}

// present returns the condition that all maps on the path to a place exist.
func (p *patching) present(at location) expr {
	out, here := yes, p.changed
	for _, name := range at.names {
		if name == "" {
			return yes // a loop only visits existing elements
		}
		out, here = and(out, here.has(name)), here.field(name)
	}
	return out
}

// applies returns the condition of a conditional or global anchor. For a list, it is the condition that some element matches.
func (p *patching) applies(key string, v any, place location, path string) expr {
	in := place.at
	p.trail = trail{known: true, names: append(slices.Clip(place.names), key)}
	if s, ok := v.(string); ok && strings.Contains(s, "{{") {
		value, ok := p.operand(s, path)
		if !ok {
			return no
		}
		return and(in.has(key), comparison(in.field(key).within(bindsUnary)+" == "+value.within(bindsUnary)))
	}
	if items, ok := v.([]any); ok {
		out := in.has(key)
		for i, item := range items {
			x := p.variableOf(in.field(key))
			var part verdict
			p.below("", func() { part = p.pattern(item, member(x), fmt.Sprintf("%s[%d]", path, i)) })
			out = and(out, in.field(key).macro("exists", x, and(part.fits, not(part.off))))
		}
		return out
	}
	part := p.pattern(v, in.field(key), path)
	return and(in.has(key), part.fits, not(part.off))
}

// mergeValue returns the operations for a key without an anchor.
func (p *patching) mergeValue(v any, place location, path string) []string {
	defer p.standing(place.at)()
	has := place.there
	if m, ok := p.constantMap(v, path); ok {
		return p.mergeValue(m, place, path)
	}
	if t, ok := p.mapOfPatch(v, place.names, path); ok {
		return p.mergeVariable(t, place, path)
	}
	switch v := v.(type) {
	case nil:
		return []string{either(has, place.operation("remove", ""), noOperation)}
	case map[string]any:
		literal, some := p.literal(v, path)
		inside := sum(p.mergeMap(v, place, path))
		add := noOperation
		if some {
			add = place.operation("add", literal)
		}
		if has == yes {
			return []string{inside}
		}
		if members, flat := p.members(v, place, path); flat && len(p.outer) > 0 && !p.varies(place.pathText()) && p.varies(literal) {
			// an iteration does not replace what another one adds
			p.once = append(p.once, either(has, noOperation, place.operation("add", "{}")))
			add = sum(members)
		}
		return []string{either(has, inside, add)}
	case []any:
		return p.mergeList(v, place, path)
	}
	literal, ok := p.literal(v, path)
	if !ok {
		return nil
	}
	if textual().MatchString(path) {
		literal = p.asText(v, literal, place, path)
	}
	return []string{p.unlessNull(v, path, place.operation("add", literal), either(has, place.operation("remove", ""), noOperation))}
}

// filledBy returns the condition that a value of a patch is not null, as an element that a filter does not find: the patch then has no such key.
func (p *patching) filledBy(v any, path string) expr {
	s, _ := v.(string)
	if _, whole := wholeVariable(s); !whole || !strings.Contains(path, ".patchStrategicMerge") {
		return yes
	}
	t, ok := p.operand(s, path)
	if !ok || orYes(t.needs) != yes || t.shape == listShape {
		return yes
	}
	return orYes(t.given)
}

// unlessNull returns the operations for a value that is not null, or others.
func (p *patching) unlessNull(v any, path, operations, otherwise string) string {
	if filled := p.filledBy(v, path); filled != yes {
		return either(filled, operations, otherwise)
	}
	return operations
}

// members returns the operations that add the members of a map of a patch one by one; flat is false if some are objects, lists or conditions.
func (p *patching) members(m map[string]any, at location, path string) (out []string, flat bool) {
	for _, full := range slices.Sorted(maps.Keys(m)) {
		anchor, key := patchAnchor(full)
		switch m[full].(type) {
		case map[string]any, []any, nil:
			return nil, false
		}
		if anchor != "" && anchor != "+" || wildcard.Has(key) {
			return nil, false
		}
		place := at.key(key)
		if strings.Contains(key, "{{") {
			t, ok := p.operand(key, path+"."+full)
			if !ok {
				return nil, false
			}
			place = at.named(t.value())
		}
		if literal, ok := p.literal(m[full], path+"."+full); ok {
			out = append(out, p.unlessNull(m[full], path+"."+full, place.operation("add", literal), noOperation))
		}
	}
	return out, true
}

// standing makes {{ @ }} stand for a value, until the function that it returns is called.
func (p *patching) standing(here expr) func() {
	before := p.here
	p.here = here
	return func() { p.here = before }
}

// mergeList returns the operations for a list: its elements are merged by their key, or it replaces the existing list.
func (p *patching) mergeList(list []any, place location, path string) []string {
	defer p.standing(expr{})()
	objects := slices.ContainsFunc(list, func(e any) bool { _, ok := e.(map[string]any); return ok })
	var keys []string
	merged := false
	if objects {
		keys, merged = p.mergeKeys(place, path)
	}
	literal, some := p.literal(list, path)
	replace := noOperation
	if some {
		replace = place.operation("add", literal)
	}
	if !merged {
		if anchored(list) || addsAbsent(list) {
			p.refuse(path, "anchors in a list that is replaced as a whole are not converted", "write JSON patches in a loop")
		}
		return []string{replace}
	}
	var changes, additions, last []string
	fronts := &fronts{}
	conditionals := 0
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && conditional(m) {
			conditionals++
		}
	}
	keyed := len(list) - conditionals
	once := p.position == (expr{}) || slices.Contains(place.names, "") // a loop changes the list inside of an element in one iteration
	for i, e := range list {
		below := path + "[" + strconv.Itoa(i) + "]"
		element, ok := e.(map[string]any)
		if !ok {
			p.refuse(below, "a list of objects with something else in it is not converted", "")
			return nil
		}
		position := p.fresh("i")
		inside := place.element(position)
		condition := yes
		for _, k := range keys[:min(1, len(keys))] {
			condition = inside.at.has(k)
		}
		rest, conditional := map[string]any{}, false
		for _, full := range slices.Sorted(maps.Keys(element)) {
			anchor, name := patchAnchor(full)
			switch anchor {
			case "(":
				conditional = true
				condition = and(condition, p.applies(name, element[full], inside, below+"."+full))
			case "<":
				x := p.variableOf(place.at)
				some := place.at.macro("exists", x, p.applies(name, element[full], location{at: member(x), names: inside.names}, below+"."+full))
				p.when = and(p.when, p.present(place), or(comparison("size("+place.at.text+") == 0"), some))
			default:
				rest[full] = element[full]
			}
		}
		each := func(condition expr, first bool) string {
			all := p.mergeMap(rest, inside, below)
			if first { // the classic patch puts the elements that it names first
				front := location{path: append(slices.Clip(place.path), segment{static: "/0"})}
				all = append(all, either(comparison(position+" > 0"), "[JSONPatch{op: 'move', from: "+inside.pathText()+", path: "+front.pathText()+"}]", noOperation))
			}
			operations := sum(all)
			if operations == noOperation {
				return noOperation
			}
			return "lists.range(size(" + place.at.text + ")).map(" + position + ", " + either(condition, operations, noOperation) + ").flatten()"
		}
		if conditional {
			changes = append(changes, each(condition, false))
			continue
		}
		if len(rest) == 0 && len(element) > 0 { // a condition for the patch
			continue
		}
		if onlyConditions(rest) { // a condition for the patch, deep in the element
			p.when = and(p.when, p.present(place), p.someElement(rest, place, below))
			continue
		}
		identities := map[string]term{}
		for _, k := range keys {
			identity, named := rest[k]
			if !named {
				continue
			}
			value, ok := p.operand(identity, below+"."+k)
			if !ok {
				return nil
			}
			identities[k] = value
			delete(rest, k)
		}
		if len(identities) == 0 {
			p.refuse(below, "an element without "+strings.Join(keys, " and ")+" is merged into no other", "")
			return nil
		}
		same := func(of expr) expr {
			out := yes
			for _, k := range keys {
				if value, named := identities[k]; named {
					out = and(out, of.has(k), comparison(of.field(k).within(bindsUnary)+" == "+value.within(bindsUnary)))
				}
			}
			return out
		}
		if once && keyed > 1 && conditionals > 0 {
			p.note(path, "elements of the list that are there already keep their places; the classic patch puts them first", "")
		}
		if once && keyed > 1 && conditionals == 0 && len(keys) == 1 {
			fronts.add(p, element, rest, same, place, below)
			continue
		}
		if !once && p.partial { // a loop from the last element to the first would put all of them first, in their order
			if own := p.element.field(keys[0]); len(keys) > 1 || len(p.outer) > 1 || !slices.Equal(p.elementPlace, inside.names) || identities[keys[0]].text != own.text {
				p.note(path, "elements of the list that are there already keep their places; the classic patch puts them first", "")
			} else if p.reordered = append(p.reordered, place); len(p.reordered) > 1 {
				p.reordered = p.reordered[:1]
			}
		}
		if len(identities) == len(keys) { // with only some of the keys, the classic patch leaves an element that is there as it is
			last = append(last, each(same(inside.at), once && keyed == 1 && len(keys) == 1)) // with several keys, it keeps its place
		}
		if literal, ok := p.literal(element, below); ok {
			x := p.variableOf(place.at)
			first := location{path: append(slices.Clip(place.path), segment{static: "/0"})}
			// New elements go before the existing ones, in the order of the patch.
			additions = append([]string{either(place.at.macro("exists", x, same(member(x))), noOperation, first.operation("add", literal))}, additions...)
		}
	}
	changes = slices.DeleteFunc(slices.Concat(changes, last, fronts.operations(p, place), additions), func(s string) bool { return s == noOperation })
	return []string{either(place.there, sum(changes), replace)}
}

// onlyConditions reports whether every value below v is that of a condition, some of which are global.
func onlyConditions(v any) bool {
	global := false
	var only func(v any) bool
	only = func(v any) bool {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				anchor, _ := patchAnchor(k)
				if global = global || anchor == "<"; anchor != "(" && anchor != "<" && (anchor != "" || !only(e)) {
					return false
				}
			}
			return len(v) > 0
		case []any:
			return len(v) > 0 && !slices.ContainsFunc(v, func(e any) bool { return !only(e) })
		}
		return false
	}
	return only(v) && global
}

// someElement returns the condition that an element of the list at a place satisfies the conditions in an element of a patch, or that there is none.
func (p *patching) someElement(element map[string]any, place location, path string) expr {
	x := p.variableOf(place.at)
	some := place.at.macro("exists", x, p.satisfies(element, location{at: member(x), names: append(slices.Clip(place.names), "")}, path))
	return or(comparison("size("+place.at.text+") == 0"), some)
}

// satisfies returns the condition that a map satisfies the conditions in a map of a patch that has nothing else.
func (p *patching) satisfies(m map[string]any, at location, path string) expr {
	out := yes
	for _, full := range slices.Sorted(maps.Keys(m)) {
		anchor, key := patchAnchor(full)
		below := path + "." + full
		if anchor != "" {
			out = and(out, p.applies(key, m[full], at, below))
			continue
		}
		place := at.key(key)
		out = and(out, place.there)
		switch v := m[full].(type) {
		case map[string]any:
			out = and(out, p.satisfies(v, place, below))
		case []any:
			for i, e := range v {
				if element, ok := e.(map[string]any); ok {
					out = and(out, p.someElement(element, place, below+"["+strconv.Itoa(i)+"]"))
				}
			}
		}
	}
	return out
}

// fronts are the elements of a patch that names several elements of a list. The classic patch puts them first, in its order.
type fronts struct {
	same    []expr   // whether the element x is the one that the patch names
	values  []string // the elements, as they are or new
	changes []string
	x       string
}

// add adds an element: what is there of it, and its changes at its new place.
func (f *fronts) add(p *patching, element, rest map[string]any, same func(expr) expr, place location, path string) {
	if f.x == "" {
		f.x = p.variableOf(place.at)
	}
	is := same(member(f.x))
	there := place.at.macro("exists", f.x, is)
	now := member(place.at.macro("filter", f.x, is).text + "[0]")
	value := now.text
	if literal, ok := p.literal(element, path); ok {
		value = there.within(bindsOr) + " ? dyn(" + now.text + ") : dyn(" + literal + ")"
	}
	at := place.with(now, segment{static: "/" + strconv.Itoa(len(f.values))}, "")
	f.same, f.values = append(f.same, is), append(f.values, value)
	f.changes = append(f.changes, either(there, sum(p.mergeMap(rest, at, path)), noOperation))
}

// operations returns the operations that move the elements to the front and change them.
func (f *fronts) operations(p *patching, place location) (out []string) {
	if len(f.values) == 0 {
		return nil
	}
	i := p.fresh("i")
	old := place.element(i)
	named := place.at.macro("filter", f.x, or(f.same...)) // the elements that are there already, from the last to the first
	is := comparison(old.at.within(bindsUnary) + " in " + named.within(bindsUnary))
	out = append(out, "lists.range(size("+place.at.text+")).reverse().map("+i+", "+is.text+", "+strings.TrimSuffix(strings.TrimPrefix(old.operation("remove", ""), "["), "]")+")")
	front := location{path: append(slices.Clip(place.path), segment{static: "/0"})}
	for _, v := range slices.Backward(f.values) {
		out = append(out, front.operation("add", v))
	}
	return append(out, f.changes...)
}

// addsAbsent reports whether any key below v is set only if it is absent.
func addsAbsent(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if a, _ := patchAnchor(k); a == "+" || addsAbsent(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, addsAbsent)
	}
	return false
}

// literal returns a part of a patch as the value of a place that does not exist yet; ok is false if the value is empty. It omits empty
// maps, nulls, and elements with conditions, which apply only to existing elements.
func (p *patching) literal(v any, path string) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "", false
	case map[string]any:
		var parts []string
		texts := true
		for _, full := range slices.Sorted(maps.Keys(v)) {
			anchor, key := patchAnchor(full)
			switch anchor {
			case "", "+":
			case "(", "<":
				continue
			default:
				key = full
			}
			end := func() {}
			if p.here != (expr{}) {
				end = p.standing(p.here.field(key))
			}
			one, ok := p.literal(v[full], path+"."+full)
			end()
			if !ok {
				continue
			}
			if _, isText := v[full].(string); !isText || !strings.HasPrefix(one, "'") {
				texts = false
			}
			name := text(key)
			if strings.Contains(key, "{{") {
				t, ok := p.operand(key, path+"."+full)
				if !ok {
					continue
				}
				name = t.value().within(bindsOr)
			}
			if filled := p.filledBy(v[full], path+"."+full); filled != yes {
				name, one = "?"+name, filled.within(bindsOr)+" ? optional.of(dyn("+one+")) : optional.none()"
				texts = false
			}
			parts = append(parts, name+": ", one)
		}
		if len(parts) == 0 {
			return "", false
		}
		return "{" + join2(parts, texts) + "}", true
	case []any:
		defer p.standing(expr{})() // elements that are added have no value yet
		var parts []string
		same := true
		for i, e := range v {
			if m, ok := e.(map[string]any); ok && conditional(m) {
				continue
			}
			one, ok := p.literal(e, path+"["+strconv.Itoa(i)+"]")
			if !ok {
				continue
			}
			if _, isText := e.(string); !isText || !strings.HasPrefix(one, "'") {
				same = false
			}
			parts = append(parts, "", one)
		}
		if len(parts) == 0 && len(v) > 0 {
			return "", false
		}
		return "[" + join2(parts, same) + "]", true
	case string, bool, int64:
		if s, is := v.(string); is && strings.HasPrefix(s, unquoted) {
			value, ok := p.operand(strings.TrimPrefix(s, unquoted), path)
			if ok && (value.shape == textShape || value.shape == anyShape) {
				return "yaml.parse(string(" + value.text + "))", ok
			}
			return value.text, ok
		}
		if m, ok := p.constantMap(v, path); ok {
			return p.literal(m, path)
		}
		value, ok := p.operand(v, path)
		if value.shape == mapShape && strings.Contains(path, ".patchStrategicMerge") && p.nulls() {
			return withoutNulls(p, value.value()), ok
		}
		return value.text, ok
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	p.refuse(path, value.TypeName(v)+" is not converted here", "")
	return "", false
}

// asText returns the value of a scalar that becomes a text where it replaces one.
func (p *patching) asText(v any, literal string, place location, path string) string {
	one := text(literal)
	if s, isText := v.(string); isText {
		if _, whole := wholeVariable(s); !whole {
			return literal
		}
		value, ok := p.operand(s, path)
		if !ok || value.shape == textShape && !value.maybeList {
			return literal
		}
		one = "string(" + literal + ")"
	}
	return and(place.there, comparison("type("+place.at.text+") == string")).within(bindsOr) + " ? dyn(" + one + ") : dyn(" + literal + ")"
}

// textual matches the paths of values that the API declares as texts, or that may be: labels, annotations, quantities, numbers or percentages. The classic patch writes a number as a
// text where it replaces a text.
var textual = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\.(metadata\.\+?\(?(labels|annotations)|limits|requests|capacity|hard)\)?\.[^\[]*$|\.(targetPort|minAvailable|maxUnavailable|maxSurge)$`)
})

func conditional(m map[string]any) bool {
	for k := range m {
		if a, _ := patchAnchor(k); a == "(" || a == "<" {
			return true
		}
	}
	return false
}

// join2 joins pairs of a prefix and a value. Values of several types are wrapped, since lists and maps hold one type.
func join2(pairs []string, same bool) string {
	var out []string
	for i := 0; i < len(pairs); i += 2 {
		value := pairs[i+1]
		if !same {
			value = "dyn(" + value + ")"
		}
		out = append(out, pairs[i]+value)
	}
	return strings.Join(out, ", ")
}

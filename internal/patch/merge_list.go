package patch

import (
	"slices"
	"strconv"

	"ephor.invalid/ephor/internal/value"
)

// cell is an element of a list that is merged by key. The merge follows the steps of Kyverno's library, because its
// corner cases (elements without a key, duplicate keys, empty elements) show in results that users have recorded. An
// element that is merged in place is the same cell in every list that contains it.
type cell struct{ v any }

func cells(v any) []*cell {
	list, _ := v.([]any)
	out := make([]*cell, len(list))
	for i, e := range list {
		out[i] = &cell{e}
	}
	return out
}

// mergedList merges two lists, either of which may be absent or null, by the keys of the schema.
func (m *merger) mergedList(target, patch any, s *schema) (any, error) {
	t, haveTarget := target.([]any)
	p, havePatch := patch.([]any)
	if haveTarget && patch == nil {
		return none, nil
	}
	if k := m.in.listOf(t, s); k != nil && havePatch && !same(t, p) {
		if out, ok, err := k.merge(m, p); ok || err != nil {
			return out, err
		}
	}
	messy := m.messy
	if haveTarget && !havePatch && orderly(t, s) {
		v, err := m.tidyElements(t, s)
		if out, ok := v.([]any); ok && m.messy == messy {
			m.in.orderedList(out, s, false)
		}
		return v, err
	}
	if err := m.meter.Step(len(t) + len(p)); err != nil {
		return nil, err
	}
	if haveTarget && !same(t, p) {
		out, ok, err := m.orderlyMerge(t, p, s)
		unchanged := ok && slices.EqualFunc(out, t, same)
		if unchanged {
			out = t
		}
		if ok && err == nil && m.messy == messy {
			m.in.orderedList(out, s, !unchanged)
		}
		switch {
		case err != nil:
			return nil, err
		case unchanged:
			return target, nil
		case ok:
			return out, nil
		}
	}
	m.messy++
	l := &listMerge{m: m, s: s, target: cells(target), patch: cells(patch), haveTarget: haveTarget, havePatch: havePatch}
	d := mergeDirective
	if haveTarget && havePatch {
		var err error
		if d, l.patch, err = listDirective(l.patch); err != nil {
			return nil, err
		}
	}
	switch {
	case d == deleteDirective:
		return none, nil
	case !haveTarget || d == replaceDirective || havePatch && same(t, p):
		l.target, l.haveTarget, l.shared = l.patch, true, true
	}
	if err := l.run(); err != nil {
		return nil, err
	}
	out := make([]any, len(l.target))
	for i, c := range l.target {
		out[i] = c.v
	}
	if slices.EqualFunc(out, t, same) && haveTarget {
		return target, nil
	}
	return out, nil
}

// orderly reports whether a list that no patch mentions is normalized apart from its elements: all of them are maps with
// the same keys, or scalars, and no two are the same.
func orderly(list []any, s *schema) bool {
	if len(list) > 64 {
		return false // comparing each element with each other is only for short lists, the usual case
	}
	for i, e := range list {
		if len(s.keys) == 0 {
			if kindOf(e) != scalarKind || e == "" || slices.ContainsFunc(list[:i], func(b any) bool { return sameText(b, e) }) {
				return false
			}
			continue
		}
		o, _ := e.(map[string]any)
		first, _ := list[0].(map[string]any)
		keys := 0
		for _, k := range s.keys {
			v, has := o[k]
			if _, all := first[k]; has != all || has && (kindOf(v) != scalarKind || v == "") {
				return false
			}
			if has {
				keys++
			}
		}
		if keys == 0 {
			return false
		}
		for _, b := range list[:i] {
			before := b.(map[string]any)
			if !slices.ContainsFunc(s.keys, func(k string) bool { return !sameText(before[k], o[k]) }) {
				return false
			}
		}
	}
	return true
}

// sameText reports whether two scalars have the same text.
func sameText(a, b any) bool {
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return x == y
		}
	case int64:
		if y, ok := b.(int64); ok {
			return x == y
		}
	}
	return a == b || scalarText(a) == scalarText(b)
}

func (m *merger) tidyElements(list []any, s *schema) (any, error) {
	if s.element == nil || len(s.keys) == 0 {
		return list, nil
	}
	out, copied := list, false
	for i, e := range list {
		v, _, err := m.value(e, none, s.element)
		if err != nil {
			return nil, err
		}
		if !same(e, v) {
			if !copied {
				out, copied = slices.Clone(list), true
			}
			out[i] = v
		}
	}
	return out, nil
}

// listDirective returns the directive of a list, an element that contains nothing else, and the list without it.
func listDirective(list []*cell) (directiveKind, []*cell, error) {
	for _, c := range list {
		o, ok := c.v.(map[string]any)
		if !ok {
			continue
		}
		v, ok := o[directiveKey]
		if !ok {
			continue
		}
		if len(o) > 1 {
			break // the directive is for this element only
		}
		d, err := parseDirective(v)
		if err != nil {
			return d, list, err
		}
		rest, err := set(list, []string{directiveKey}, []string{scalarText(v)}, nil)
		return d, rest, err
	}
	return mergeDirective, list, nil
}

// listMerge is one merge of two lists. shared: the target is the patch itself.
type listMerge struct {
	m                     *merger
	s                     *schema
	target, patch         []*cell
	haveTarget, havePatch bool
	shared                bool
}

func (l *listMerge) setTarget(list []*cell) {
	l.target = list
	if l.shared {
		l.patch = list
	}
}

func (l *listMerge) run() error {
	keys := l.s.keys
	var tuples [][]string
	if len(keys) > 0 {
		tuples = keyTuples(keys, l.patch, l.target)
	} else {
		keys = []string{""}
		tuples = scalarTuples(l.patch, l.target)
	}
	if len(tuples) == 0 {
		return nil
	}
	// Every tuple is searched in every list, and so is every element when the new ones are put in front.
	if err := l.m.meter.Step(len(keys) * len(tuples) * (2*len(tuples) + len(l.target) + len(l.patch))); err != nil {
		return err
	}
	if len(l.s.keys) > 1 {
		joinTuples(tuples)
	}
	var added []*cell
	var validKeys []string
	for _, tuple := range tuples {
		var validValues []string
		validKeys, validValues = usedKeys(tuples, tuple, keys)
		merged, err := l.element(validKeys, validValues)
		if err != nil {
			return err
		}
		if merged == nil || kindOf(merged.v) == noKind || isEmptyMap(merged.v) {
			rest, err := set(l.target, validKeys, validValues, nil)
			if err != nil {
				return err
			}
			l.setTarget(rest)
			continue
		}
		for i, key := range validKeys {
			if o, ok := merged.v.(map[string]any); ok && validValues[i] != "" {
				if _, has := o[key]; !has {
					merged.v = withField(o, key, validValues[i])
				}
			}
		}
		if added, err = set(added, validKeys, validValues, merged); err != nil {
			return err
		}
	}
	list, err := prepend(added, l.target, validKeys)
	if err != nil {
		return err
	}
	l.target = list
	return nil
}

// element merges the elements of both lists that have these values; it returns the changed cell, nil if nothing is left.
func (l *listMerge) element(keys, values []string) (*cell, error) {
	keys, values = usedKeys([][]string{values}, values, keys)
	t, p := find(l.target, keys, values), find(l.patch, keys, values)
	if l.havePatch && l.shared {
		p = t
	}
	if !l.havePatch {
		p = nil
	}
	old, patch := none, none
	if t != nil {
		old = t.v
	}
	if p != nil {
		patch = p.v
	}
	if t == nil && p == nil {
		return nil, nil
	}
	v, keep, err := l.m.value(old, patch, l.s.elements())
	if err != nil {
		return nil, err
	}
	if v == none || v == nil && !keep {
		return nil, nil
	}
	// A map is merged into the target's element unless a directive replaces it; scalars and new elements come from the
	// patch.
	into := t
	switch {
	case t == nil || kindOf(old) == noKind:
		into = p
	case kindOf(old) == scalarKind && p != nil:
		into = p
	case p != nil && p != t && replaces(p.v):
		into = &cell{} // the target's element does not change
	}
	if into == nil {
		into = &cell{}
	}
	into.v = v
	return into, nil
}

// replaces reports whether a map has the directive that replaces the other map.
func replaces(v any) bool {
	o, ok := v.(map[string]any)
	if !ok {
		return false
	}
	d, ok := o[directiveKey]
	return ok && scalarText(d) == "replace"
}

func withField(o map[string]any, key, text string) map[string]any {
	out := make(map[string]any, len(o)+1)
	for k, v := range o {
		out[k] = v
	}
	out[key] = text
	return out
}

func isEmptyMap(v any) bool {
	m, ok := v.(map[string]any)
	return ok && len(m) == 0
}

// keyText returns the text of a key field, by which elements are compared; empty if it is absent or not a scalar.
func keyText(o map[string]any, key string) string {
	v, ok := o[key]
	if !ok || v == nil {
		return ""
	}
	return scalarText(v)
}

// hasText reports whether scalarText(v) is text. It allocates nothing for a text or a whole number.
func hasText(v any, text string) bool {
	if n, ok := v.(int64); ok {
		var b [20]byte
		return string(strconv.AppendInt(b[:0], n, 10)) == text
	}
	return scalarText(v) == text
}

// scalarText returns a scalar as JSON text, without quotes; lists and maps have no text.
func scalarText(v any) string {
	switch x := v.(type) {
	case string:
		return x
	case bool:
		return strconv.FormatBool(x)
	case nil:
		return "null"
	case map[string]any, []any, absent:
		return ""
	}
	return value.JSON(v)
}

package patch

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// merge merges patch into target by the rules of strategic merge: maps recursively, null deletes, `$patch` directives,
// lists that Kubernetes declares as merged by their keys, with new elements in front, and other lists as a whole. It
// modifies neither input, and the result shares parts with them. As in Kyverno, lists that are merged by key are
// normalized everywhere in the target, even where the patch does not mention them: of two elements with the same key one
// stays. in holds the knowledge from earlier merges; nil for none.
func (in *Merges) merge(meter *budget.Meter, target, patch any) (any, error) {
	m := &merger{meter: meter, in: in}
	v, _, err := m.value(target, patch, nil)
	if err != nil {
		return nil, err
	}
	if v == none {
		return nil, nil
	}
	return v, nil
}

// absent is a missing value, unlike null.
type absent struct{}

var none any = absent{}

type merger struct {
	meter *budget.Meter
	depth int
	in    *Merges // nil for a single merge
	messy int     // lists that took the slow path: they may not be normalized yet
}

var errTooDeep = errors.New("the value is nested too deeply")

type kind uint8

const (
	noKind kind = iota // absent or null
	mapKind
	listKind
	scalarKind
)

func kindOf(v any) kind {
	switch v.(type) {
	case nil, absent:
		return noKind
	case map[string]any:
		return mapKind
	case []any:
		return listKind
	}
	return scalarKind
}

// value merges one place. keep distinguishes a null of the target, which stays, from one that deletes.
func (m *merger) value(target, patch any, s *schema) (v any, keep bool, err error) {
	if err := m.meter.Step(1); err != nil {
		return nil, false, err
	}
	if m.depth++; m.depth > budget.MaxDepth {
		return nil, false, errTooDeep
	}
	defer func() { m.depth-- }()
	if s == nil {
		if s = schemaOf(target); s == nil {
			s = schemaOf(patch)
		}
	}
	if patch == none && m.in.isOrdered(target, s) {
		return target, false, nil
	}
	k := kindOf(target)
	if k == noKind {
		k = kindOf(patch)
	}
	if pk := kindOf(patch); pk != noKind && k != noKind && pk != k {
		return nil, false, wrongKind(k, pk, patch)
	}
	switch k {
	case listKind:
		if s != nil && s.merged {
			v, err = m.mergedList(target, patch, s)
			return v, false, err
		}
		fallthrough
	case scalarKind:
		if patch != none {
			return patch, false, nil
		}
		return target, false, nil
	}
	return m.object(target, patch, s)
}

// wrongKind returns the error for a patch of another type than its target, with Kyverno's text.
func wrongKind(want, got kind, patch any) error {
	name := [...]string{"", "MappingNode", "SequenceNode", "ScalarNode"}
	return fmt.Errorf("wrong node kind: expected %s but got %s: node contents:\n%s\n", name[want], name[got], appendFlow(nil, patch)) //lint:ignore ST1005 the reference's words
}

// appendFlow writes JSON with a blank after colons and commas, as Kyverno prints documents.
func appendFlow(b []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		b = append(b, '{')
		for i, k := range keysOf(v) {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(value.AppendJSON(b, k), ": "...)
			b = appendFlow(b, v[k])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendFlow(b, e)
		}
		return append(b, ']')
	}
	return value.AppendJSON(b, v)
}

// object merges maps, including values that are null or absent on both sides.
func (m *merger) object(target, patch any, s *schema) (v any, keep bool, err error) {
	p, patched := patch.(map[string]any)
	base, ok := target.(map[string]any)
	if !ok {
		if !patched {
			// A null of the target stays if the patch does not mention it; a null of the patch deletes.
			return orNil(target), target == nil && patch == none, nil
		}
		d, rest, _ := directive(p) // an unknown directive in a new value is ordinary data
		if d == deleteDirective {
			return none, false, nil
		}
		v, err = m.alone(rest, s)
		return v, false, err
	}
	if patch == nil {
		return none, false, nil
	}
	if !patched {
		v, err = m.tidy(base, s)
		return v, false, err
	}
	d, rest, err := directive(p)
	switch {
	case err != nil:
		return nil, false, err
	case d == deleteDirective:
		return none, false, nil
	case d == replaceDirective, same(base, p):
		v, err = m.alone(rest, s)
		return v, false, err
	}
	v, err = m.fields(base, rest, s)
	return v, false, err
}

// orNil returns v, or absent instead of a null that is to be dropped.
func orNil(v any) any {
	if v == none {
		return none
	}
	return nil
}

// fields merges the members of two maps into a copy of base, which is created when the first member changes.
func (m *merger) fields(base, patch map[string]any, s *schema) (any, error) {
	out, copied := base, m.in.owns(base)
	write := func() {
		if !copied {
			out, copied = maps.Clone(base), true
			m.in.own(out)
		}
	}
	messy, ordered := m.messy, m.in.isOrdered(base, s)
	for _, key := range keysOf(patch) {
		old, had := base[key]
		if !had {
			old = none
		}
		v, keep, err := m.value(old, patch[key], s.field(key))
		if err != nil {
			return nil, err
		}
		switch {
		case v == none || v == nil && !keep:
			if had {
				write()
				delete(out, key)
			}
		case !had || !same(old, v):
			write()
			out[key] = inStyle(old, v)
		}
	}
	if s == nil {
		return out, nil
	}
	if ordered && m.messy == messy {
		m.in.ordered(out, s)
		return out, nil
	}
	// Members that the patch does not mention are normalized, too.
	for key, old := range base {
		if _, mentioned := patch[key]; mentioned {
			continue
		}
		f := s.field(key)
		if f == nil || kindOf(old) != mapKind && kindOf(old) != listKind {
			continue
		}
		v, _, err := m.value(old, none, f)
		if err != nil {
			return nil, err
		}
		switch {
		case v == none:
			write()
			delete(out, key)
		case !same(old, v):
			write()
			out[key] = v
		}
	}
	if m.messy == messy {
		m.in.ordered(out, s)
	} else {
		m.in.disordered(out)
	}
	return out, nil
}

// inStyle returns the scalar v in the form in which it replaces old: a text stays a text, as Kyverno keeps the quotes of
// a replaced value.
func inStyle(old, v any) any {
	if _, text := old.(string); text && v != nil && kindOf(v) == scalarKind {
		return scalarText(v)
	}
	return v
}

// tidy normalizes the merged lists below a map that no patch mentions.
func (m *merger) tidy(base map[string]any, s *schema) (any, error) {
	if s == nil {
		return base, nil
	}
	return m.fields(base, nil, s)
}

// alone returns what remains of a patch if there is no value to merge it into: without nulls and directives, and with its
// merged lists normalized.
func (m *merger) alone(p map[string]any, s *schema) (any, error) {
	out, copied := p, false
	for _, key := range keysOf(p) {
		old := p[key]
		v, _, err := m.value(old, old, s.field(key))
		if err != nil {
			return nil, err
		}
		gone := v == none || v == nil
		if (gone || !same(old, v)) && !copied {
			out, copied = maps.Clone(p), true
		}
		switch {
		case gone:
			delete(out, key)
		case copied:
			out[key] = v
		}
	}
	return out, nil
}

// same reports whether v is old itself, or an equal scalar, so that no copy is needed. It may return false for equal
// values.
func same(old, v any) bool {
	switch o := old.(type) {
	case map[string]any:
		n, ok := v.(map[string]any)
		return ok && reflect.ValueOf(o).Pointer() == reflect.ValueOf(n).Pointer()
	case []any:
		n, ok := v.([]any)
		return ok && len(o) == len(n) && (len(o) == 0 || &o[0] == &n[0])
	}
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return old == v
}

func keysOf(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// directiveKind is the action of a `$patch` directive.
type directiveKind uint8

const (
	mergeDirective directiveKind = iota
	replaceDirective
	deleteDirective
)

const directiveKey = "$patch"

func parseDirective(v any) (directiveKind, error) {
	switch text := scalarText(v); text {
	case "delete":
		return deleteDirective, nil
	case "replace":
		return replaceDirective, nil
	case "merge":
		return mergeDirective, nil
	default:
		return mergeDirective, fmt.Errorf("unknown patch strategy '%s'", text)
	}
}

// directive returns the directive of a map, and the map without it. An unknown directive is an error, and stays.
func directive(p map[string]any) (directiveKind, map[string]any, error) {
	v, ok := p[directiveKey]
	if !ok {
		return mergeDirective, p, nil
	}
	d, err := parseDirective(v)
	if err != nil {
		return d, p, err
	}
	rest := maps.Clone(p)
	delete(rest, directiveKey)
	return d, rest, nil
}

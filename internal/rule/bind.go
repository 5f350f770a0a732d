package rule

import (
	"slices"
	"strconv"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/jmespath"
	"ephor.invalid/ephor/internal/loader"
	"ephor.invalid/ephor/internal/scope"
	"ephor.invalid/ephor/internal/value"
)

// binder defines the variables for a foreach element: element and elementIndex, and both with the nesting depth as a suffix. It defines
// only those that the body of the loop reads, since loops over containers run for every Pod.
type binder struct {
	elements, indexes []string
	made              *scope.Made
	late              *loader.Chain // the entries of the rule's context that read the element
}

// newBinder returns the binder for a loop over list. list is nil if it does not compile; shared is the context of the rule.
func newBinder(reads *scope.Reads, shared *loader.Chain, list *jmespath.Expr, depth int) binder {
	var b binder
	indexes := []string{"elementIndex", "elementIndex" + strconv.Itoa(depth)}
	if late := shared.Late(append(elementNames(depth), indexes...)...); slices.ContainsFunc(late.Names(), reads.Has) {
		b.late = late
		reads.AddReads(late.Reads())
	}
	if list != nil && !slices.Contains(list.Roots(), "*") {
		b.made = &scope.Made{Of: list.Roots()}
	}
	for _, name := range elementNames(depth) {
		if reads.Has(name) {
			b.elements = append(b.elements, name)
		}
	}
	for _, name := range indexes {
		if reads.Has(name) {
			b.indexes = append(b.indexes, name)
		}
	}
	return b
}

// elementNames returns the names of an element inside depth loops.
func elementNames(depth int) []string { return []string{"element", "element" + strconv.Itoa(depth)} }

func (b *binder) apply(s *scope.Scope, element any, index int) *scope.Scope {
	for _, name := range b.elements {
		s = s.WithMade(name, element, b.made)
	}
	for _, name := range b.indexes {
		s = s.With(name, float64(index))
	}
	return b.late.Apply(s.Element(index))
}

// conditionList returns typed conditions as JSON values.
func conditionList(in []kyvernov1.Condition) []any {
	out := make([]any, len(in))
	for i, c := range in {
		m := map[string]any{}
		if c.RawKey != nil {
			m["key"], _ = value.DecodeJSON(c.RawKey.Raw)
		}
		if c.Operator != "" {
			m["operator"] = string(c.Operator)
		}
		if c.RawValue != nil {
			m["value"], _ = value.DecodeJSON(c.RawValue.Raw)
		}
		if c.Message != "" {
			m["message"] = c.Message
		}
		out[i] = m
	}
	return out
}

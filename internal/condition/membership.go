package condition

import (
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// quantifier defines which elements of the key must be in the value, or outside it: AnyIn, AllIn, AnyNotIn and AllNotIn
// are one operation with different signs.
type quantifier struct {
	all bool // every element, not only one
	not bool // outside the value, not in it
}

// evaluate combines the memberships of n elements. has(i) reports whether element i is in the value.
func (q quantifier) evaluate(n int, has func(i int) (bool, error)) (bool, error) {
	for i := range n {
		in, err := has(i)
		if err != nil {
			return false, err
		}
		if (in != q.not) != q.all {
			return !q.all, nil
		}
	}
	return q.all, nil
}

// prepare prepares the value of an operator of the AnyIn family.
func (q quantifier) prepare(v any, once bool) operand {
	switch v := v.(type) {
	case []any:
		if once {
			return &member{q, plain(v)}
		}
		return &member{q, textsOf(v)}
	case string:
		if r, ok := measure.ParseRange(v); ok && !r.Outside { // as in Kyverno, a text with `!-` is no range here, as it is in patterns
			return &within{q, r}
		}
		switch list, kind := parseList(v); kind {
		case jsonList:
			return &member{q, textsOf(list)}
		case jsonOther:
			return &memberJSON{q, v, wildcard.Compile(v)}
		}
		return &memberText{member{q, newTexts(v)}, wildcard.Compile(v)}
	case bool:
		return listsOnly(q, v)
	}
	if _, ok := value.Float(v); ok {
		return listsOnly(q, v)
	}
	return never{}
}

type jsonKind uint8

const (
	notJSON jsonKind = iota
	jsonList
	jsonOther
)

// parseList parses a text that holds a JSON list. Most texts are not JSON, which the first character already shows.
func parseList(s string) ([]any, jsonKind) {
	v, err := value.DecodeJSONFloat([]byte(s))
	if err != nil {
		return nil, notJSON
	}
	list, ok := v.([]any)
	if !ok {
		return nil, jsonOther
	}
	return list, jsonList
}

// member looks for the key in a list of texts.
type member struct {
	quantifier
	list textList
}

func (o *member) evaluateKey(m *budget.Meter, key any) (bool, error) {
	if keys, ok := key.([]any); ok {
		return o.evaluate(len(keys), func(i int) (bool, error) {
			text, err := meteredText(m, keys[i])
			if err != nil {
				return false, err
			}
			return o.list.matches(m, text)
		})
	}
	text, ok := scalarText(key)
	if !ok {
		return false, nil
	}
	in, err := o.list.matches(m, text)
	return in != o.not, err
}

// memberText is a text that is neither a range nor JSON. A list key is compared with it as with a list of this one text.
// For a scalar key only the wildcards of the value count, not those of the key.
type memberText struct {
	member
	pattern wildcard.Pattern
}

func (o *memberText) evaluateKey(m *budget.Meter, key any) (bool, error) {
	text, ok := scalarText(key)
	if !ok {
		return o.member.evaluateKey(m, key)
	}
	if err := m.Step(1 + o.pattern.Cost(text)); err != nil {
		return false, err
	}
	return o.pattern.Match(text) != o.not, nil
}

// memberJSON is a text that is valid JSON but not a list, such as "5" or "true". It can match a scalar key, and a list
// key with exactly one element that equals the text. For every other key the value has the wrong type, and no operator
// holds.
type memberJSON struct {
	quantifier
	text    string
	pattern wildcard.Pattern
}

func (o *memberJSON) evaluateKey(m *budget.Meter, key any) (bool, error) {
	if keys, ok := key.([]any); ok {
		return len(keys) == 1 && textOf(keys[0]) == o.text && !o.not, m.Step(1)
	}
	text, ok := scalarText(key)
	if !ok {
		return false, nil
	}
	if err := m.Step(1 + o.pattern.Cost(text)); err != nil {
		return false, err
	}
	return o.pattern.Match(text) && !o.not, nil
}

// listsOnly is a number or bool as the value: AnyIn and AnyNotIn compare the elements of a list with it; no other
// comparison holds.
func listsOnly(q quantifier, v any) operand {
	if q.all {
		return never{}
	}
	return &ofList{member{q, newTexts(textOf(v))}}
}

type ofList struct{ member }

func (o *ofList) evaluateKey(m *budget.Meter, key any) (bool, error) {
	if _, ok := key.([]any); !ok {
		return false, nil
	}
	return o.member.evaluateKey(m, key)
}

// within tests each key against a range such as `1-5`. As in Kyverno's recorded results, an element of a list is outside of the range for
// AnyNotIn only if it can be compared with the ends, so a word is not outside.
type within struct {
	quantifier
	r measure.Range
}

func (o *within) evaluateKey(m *budget.Meter, key any) (bool, error) {
	if keys, ok := key.([]any); ok {
		return o.evaluate(len(keys), func(i int) (bool, error) { return o.hasElement(keys[i]), m.Step(1) })
	}
	if _, ok := scalarText(key); !ok {
		return false, nil
	}
	return contains(o.r, key) != o.not, m.Step(1)
}

// hasElement reports whether an element of a list is in the range.
func (o *within) hasElement(key any) bool {
	if o.not && !o.all {
		outside := o.r
		outside.Outside = true
		return !contains(outside, key)
	}
	return contains(o.r, key)
}

func contains(r measure.Range, key any) bool {
	if f, ok := value.Float(key); ok {
		return r.ContainsFloat(f)
	}
	s, ok := key.(string)
	return ok && r.Contains(s)
}

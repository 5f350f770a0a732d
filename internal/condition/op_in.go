package condition

import (
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/wildcard"
)

var in = &Operator{
	Name:         "In",
	Deprecated:   true,
	Replacements: []string{"AllIn", "AnyIn"},
	Doc:          "Every element of the key is in the value, which is a list or a string with a JSON list. Elements of a list key are compared literally, a scalar key with wildcards.",
	Examples: []Example{
		{"a", []any{"a", "b"}, true},
		{"abc", []any{"a*"}, true},
		{[]any{"a", "b"}, []any{"b", "a"}, true},
		{[]any{"abc"}, []any{"a*"}, false},
		{[]any{"a"}, `["a","b"]`, true},
		{[]any{}, []any{"a"}, true},
		{[]any{}, []any{1.0, 1.5}, false}, // a list of numbers is not a valid value for a list key
		{[]any{"a"}, "a", false},
		{"abc", "a*", true},
		{"*", "60", false}, // wildcards in the key apply to lists only
		{"a", 5.0, false},
		{nil, []any{"a"}, false},
	},
	prepare: func(v any, once bool) operand { return prepareIn(v, once, false) },
}

var notIn = &Operator{
	Name:         "NotIn",
	Deprecated:   true,
	Replacements: []string{"AllNotIn", "AnyNotIn"},
	Doc:          "At least one element of the key is not in the value. The value has the same forms as for In.",
	Examples: []Example{
		{"c", []any{"a", "b"}, true},
		{"abc", []any{"a*"}, false},
		{[]any{"a", "b"}, []any{"a"}, true},
		{[]any{"a"}, []any{"a", "b"}, false},
		{[]any{"abc"}, []any{"a*"}, true},
		{[]any{}, []any{"a"}, false},
		{[]any{"a"}, []any{60.0}, false}, // a list of numbers is not a valid value for a list key
		{[]any{"b"}, "a", false},         // a text that is not a JSON list is not a valid value
		{"b", "a", false},
		{5.0, 1.5, false},
	},
	prepare: func(v any, once bool) operand { return prepareIn(v, once, true) },
}

func prepareIn(v any, once, not bool) operand {
	o := &oldMember{not: not}
	switch v := v.(type) {
	case []any:
		o.mixed = !allTexts(v)
		o.list = plain(v)
		if !once {
			o.list = textsOf(v)
		}
	case string:
		list, kind := parseList(v)
		if kind != jsonList {
			return &oldText{wildcard.Compile(v), not}
		}
		o.mixed = !allTexts(list)
		o.list = textsOf(list)
	default:
		return never{}
	}
	return o
}

// oldText is a text that is not a JSON list. It can match a scalar key; for every other key the value is invalid and
// neither operator holds.
type oldText struct {
	pattern wildcard.Pattern
	not     bool
}

func (o *oldText) evaluateKey(m *budget.Meter, key any) (bool, error) {
	text, ok := scalarText(key)
	if err := m.Step(1 + o.pattern.Cost(text)); err != nil {
		return false, err
	}
	return ok && !o.not && o.pattern.Match(text), nil
}

// oldMember is the membership test of In and NotIn: list keys are sets of exact texts. A list that holds anything but
// texts is not a valid value for a list key: neither operator holds.
type oldMember struct {
	list  textList
	mixed bool
	not   bool
}

func allTexts(list []any) bool {
	for _, v := range list {
		if _, ok := v.(string); !ok {
			return false
		}
	}
	return true
}

func (o *oldMember) evaluateKey(m *budget.Meter, key any) (bool, error) {
	if keys, ok := key.([]any); ok {
		if o.mixed {
			return false, m.Step(1)
		}
		all, err := quantifier{all: true}.evaluate(len(keys), func(i int) (bool, error) {
			text, err := meteredText(m, keys[i])
			if err != nil {
				return false, err
			}
			return o.list.contains(m, text)
		})
		return all != o.not, err
	}
	text, ok := scalarText(key)
	if !ok {
		return false, nil
	}
	in, err := o.list.matches(m, text)
	return in != o.not, err
}

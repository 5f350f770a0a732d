package condition

import (
	"time"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

var equals = &Operator{
	Name:    "Equals",
	Aliases: []string{"Equal"},
	Doc:     "The key equals the value. Durations and quantities are compared by amount, other text with the wildcards of the value, lists and maps element by element.",
	Examples: []Example{
		{"str", "s*", true},
		{"s*", "str", false},
		{"60", "*", true},
		{"1h", "60m", true},
		{"3600s", 3600.0, true},
		{"3600", "1h", false},
		{"0s", 0.0, true},
		{"1Gi", "1024Mi", true},
		{"100m", "0.1", true},
		{"100m", 0.1, false},
		{5.0, "5", true},
		{5.0, int64(5), true},
		{3600.0, "1h", false},
		{true, true, true},
		{true, "true", false},
		{[]any{"a", 1.0}, []any{"a", int64(1)}, true},
		{[]any{"a", "b"}, []any{"b", "a"}, false},
		{map[string]any{"a": 1.0}, map[string]any{"a": 1.0}, true},
		{map[string]any{}, []any{}, false},
		{nil, nil, false},
	},
	prepare: func(v any, _ bool) operand { return newEquality(v, false) },
}

var notEquals = &Operator{
	Name:    "NotEquals",
	Aliases: []string{"NotEqual"},
	Doc:     "The key does not equal the value; they are compared as by Equals, except that a key that is a quantity equals no other text. If the key is null, neither Equals nor NotEquals holds.",
	Examples: []Example{
		{"str", "s*", false},
		{"str", "x*", true},
		{"str", "*", false},
		{"60", "*", true}, // a quantity is compared with quantities only
		{"100Mi", "1*", true},
		{3600.0, "1h", true}, // a number is compared with numbers only
		{true, "x", true},
		{map[string]any{"a": 1.0}, map[string]any{"a": 2.0}, true},
		{"1h", "61m", true},
		{5.0, "6", true},
		{true, "true", true},
		{[]any{"a"}, "a", true},
		{nil, "a", false},
		{nil, nil, false},
	},
	prepare: func(v any, _ bool) operand { return newEquality(v, true) },
}

// equality is a value that was parsed once for all kinds of comparison with a key.
type equality struct {
	value   any
	not     bool
	number  float64 // of a number or of a numeric text
	numeric bool
	text    textValue
}

// textValue is the value in the form for comparisons with text keys.
type textValue struct {
	pattern    wildcard.Pattern
	isText     bool
	duration   time.Duration // of a text, or the number as seconds
	isDuration bool
	spelled    bool // the duration is a text other than "0"
	quantity   measure.Quantity
	isQuantity bool
	// quantities: a key that is a quantity equals quantities only. As in Kyverno, Equals compares it with wildcards, too.
	quantities bool
}

func newEquality(v any, not bool) operand {
	e := &equality{value: v, not: not}
	e.number, e.numeric = number(v)
	switch v := v.(type) {
	case string:
		e.text.isText = true
		e.text.pattern = wildcard.Compile(v)
		e.text.duration, e.text.isDuration = measure.Duration(v)
		e.text.spelled = e.text.isDuration && v != "0"
		e.text.quantity, e.text.isQuantity = measure.ParseQuantity(v)
		e.text.quantities = e.text.isQuantity || not && wildcard.Has(v)
	default:
		if f, ok := value.Float(v); ok {
			e.text.duration, e.text.isDuration = seconds(f)
		}
	}
	return e
}

// number returns v as a number, if it is a number or a numeric text.
func number(v any) (float64, bool) {
	if s, ok := v.(string); ok {
		return measure.Number(s)
	}
	return value.Float(v)
}

// seconds returns a number of seconds as a duration; ok is false if it is out of range.
func seconds(f float64) (time.Duration, bool) {
	ns := f * float64(time.Second)
	if !(ns > -1<<63 && ns < 1<<63) {
		return 0, false
	}
	return time.Duration(ns), true
}

func (e *equality) evaluateKey(m *budget.Meter, key any) (bool, error) {
	var same bool
	switch k := key.(type) {
	case nil:
		return false, nil
	case string:
		if err := m.Step(1 + e.text.pattern.Cost(k)); err != nil {
			return false, err
		}
		same = e.text.equals(k)
	case bool:
		v, ok := e.value.(bool)
		same = ok && v == k
	case []any:
		if v, ok := e.value.([]any); ok {
			var err error
			if same, err = m.Equal(k, v); err != nil {
				return false, err
			}
		}
	case map[string]any:
		if v, ok := e.value.(map[string]any); ok {
			var err error
			if same, err = m.Equal(k, v); err != nil {
				return false, err
			}
		}
	default:
		f, ok := value.Float(k)
		same = ok && e.numeric && f == e.number
	}
	return same != e.not, nil
}

func (v *textValue) equals(key string) bool {
	if v.isDuration {
		if d, ok := measure.Duration(key); ok && (v.spelled || key != "0") {
			return d == v.duration
		}
	}
	if !v.isText {
		return false
	}
	if v.quantities {
		if q, ok := measure.ParseQuantity(key); ok {
			return v.isQuantity && q.Cmp(v.quantity) == 0
		}
	}
	return v.pattern.Match(key)
}

package condition

import (
	"fmt"
	"strconv"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
	"ephor.invalid/ephor/internal/wildcard"
)

// textOf returns v as the In family compares it: numbers are float64 and print with an exponent from 1e+06 on.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case nil:
		return "<nil>"
	}
	if f, ok := value.Float(v); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}

// textSteps returns what textOf takes, in steps.
func textSteps(v any) int {
	switch v.(type) {
	case string, bool, nil:
		return 2
	case []any, map[string]any:
		return value.TextLength(v, 2*budget.DefaultSteps) / 2
	}
	return 8
}

// meteredText is textOf, which is charged first.
func meteredText(m *budget.Meter, v any) (string, error) {
	if err := m.Step(textSteps(v)); err != nil {
		return "", err
	}
	return textOf(v), nil
}

// scalarText returns the text of a string, number or bool; ok is false for other values.
func scalarText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	}
	if f, ok := value.Float(v); ok {
		return strconv.FormatFloat(f, 'g', -1, 64), true
	}
	return "", false
}

// textList is a list of texts that is searched for a key.
type textList interface {
	// contains reports whether key equals one of the texts.
	contains(m *budget.Meter, key string) (bool, error)
	// matches is contains with wildcards in both directions: those of the texts, and those of the key.
	matches(m *budget.Meter, key string) (bool, error)
}

// plainTexts is a list that came from a variable and is used once.
type plainTexts []string

func (t plainTexts) contains(m *budget.Meter, key string) (bool, error) {
	if err := m.Step(1 + len(t)); err != nil {
		return false, err
	}
	for _, v := range t {
		if v == key {
			return true, nil
		}
	}
	return false, nil
}

func (t plainTexts) matches(m *budget.Meter, key string) (bool, error) {
	keyIsWild := wildcard.Has(key)
	for _, s := range t {
		if err := m.Step(1 + wildcard.Cost(s, key)); err != nil {
			return false, err
		}
		if wildcard.Match(s, key) {
			return true, nil
		}
		if keyIsWild {
			if err := m.Step(1 + wildcard.Cost(key, s)); err != nil {
				return false, err
			}
			if wildcard.Match(key, s) {
				return true, nil
			}
		}
	}
	return false, m.Step(1)
}

// texts is a list that was prepared for many keys.
type texts struct {
	exact map[string]struct{} // all texts, for lists that are so long that a map is faster
	items []wildcard.Pattern
	wild  bool // some item has a wildcard
}

// long is the length from which a map is faster than comparing one by one.
const long = 8

func newTexts(list ...string) *texts {
	t := &texts{items: make([]wildcard.Pattern, len(list))}
	for i, s := range list {
		t.items[i] = wildcard.Compile(s)
		t.wild = t.wild || wildcard.Has(s)
	}
	if len(list) >= long {
		t.exact = make(map[string]struct{}, len(list))
		for _, s := range list {
			t.exact[s] = struct{}{}
		}
	}
	return t
}

func textsOf(list []any) *texts { return newTexts(plain(list)...) }

func plain(list []any) plainTexts {
	out := make(plainTexts, len(list))
	for i, v := range list {
		out[i] = textOf(v)
	}
	return out
}

func (t *texts) contains(m *budget.Meter, key string) (bool, error) {
	if t.exact != nil {
		_, ok := t.exact[key]
		return ok, m.Step(1)
	}
	if err := m.Step(1 + len(t.items)); err != nil {
		return false, err
	}
	for i := range t.items {
		if t.items[i].String() == key {
			return true, nil
		}
	}
	return false, nil
}

func (t *texts) matches(m *budget.Meter, key string) (bool, error) {
	if t.exact != nil {
		if _, ok := t.exact[key]; ok {
			return true, nil
		}
	}
	keyIsWild := wildcard.Has(key)
	if t.exact != nil && !t.wild && !keyIsWild {
		return false, m.Step(1)
	}
	for i := range t.items {
		item := &t.items[i]
		if err := m.Step(1 + item.Cost(key)); err != nil {
			return false, err
		}
		if item.Match(key) {
			return true, nil
		}
		if keyIsWild {
			if err := m.Step(1 + wildcard.Cost(key, item.String())); err != nil {
				return false, err
			}
			if wildcard.Match(key, item.String()) {
				return true, nil
			}
		}
	}
	return false, m.Step(1)
}

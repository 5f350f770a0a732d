package pattern

import (
	"math"
	"strconv"
	"strings"

	"ephor.invalid/ephor/internal/measure"
	"ephor.invalid/ephor/internal/wildcard"
)

// text is a compiled string pattern: alternatives split on |, each a conjunction split on &.
type text struct {
	raw   string
	shape textShape
	any   [][]term
}

type textShape uint8

const (
	operators textShape = iota
	emptyText           // ""   only the empty string
	anyValue            // "*" any value but null, including maps and lists
	someValue           // "?*" any scalar but null and the empty string
)

func compileText(p string) *text {
	t := &text{raw: p}
	switch p {
	case "":
		t.shape = emptyText
		return t
	case "*":
		t.shape = anyValue
		return t
	case "?*":
		t.shape = someValue
		return t
	}
	for _, alternative := range strings.Split(p, "|") {
		var all []term
		for _, part := range strings.Split(alternative, "&") {
			all = append(all, compileTerm(strings.TrimSpace(part)))
		}
		t.any = append(t.any, all)
	}
	return t
}

// cost estimates the steps of match beyond the first few: for many alternatives, or long wildcards.
func (t *text) cost(v any) int {
	if t.shape != operators {
		return 0
	}
	s, isText := v.(string)
	n := 0
	for _, all := range t.any {
		n += len(all)
		if isText {
			for i := range all {
				n += all[i].text.Cost(s) + measure.Steps(s)
			}
		}
	}
	return n
}

func (t *text) match(v any) bool {
	s, isText := v.(string)
	switch t.shape {
	case emptyText:
		return isText && s == ""
	case anyValue:
		return v != nil
	case someValue:
		switch v.(type) {
		case nil, map[string]any, []any:
			return false
		}
		return !isText || s != ""
	}
	if isText && s == t.raw {
		return true // equality of the raw texts takes precedence over all operators
	}
	for _, all := range t.any {
		ok := true
		for i := range all {
			if !all[i].match(v) {
				ok = false
				break
			}
		}
		if ok {
			return true
		}
	}
	return false
}

// term is one comparison of the operator language.
type term struct {
	op       operator
	bound    measure.Bound // the right side as a duration or quantity
	text     wildcard.Pattern
	interval measure.Range // inRange
}

type operator uint8

const (
	equal operator = iota
	notEqual
	less
	lessOrEqual
	greater
	greaterOrEqual
	inRange
)

func compileTerm(s string) term {
	for _, o := range []struct {
		prefix string
		op     operator
	}{{">=", greaterOrEqual}, {"<=", lessOrEqual}, {">", greater}, {"<", less}, {"!", notEqual}} {
		if rest, ok := strings.CutPrefix(s, o.prefix); ok && len(s) > 1 {
			return newTerm(o.op, strings.TrimSpace(rest))
		}
	}
	if r, ok := measure.ParseRange(s); ok {
		return term{op: inRange, interval: r}
	}
	return newTerm(equal, s)
}

func newTerm(op operator, s string) term {
	return term{op: op, bound: measure.NewBound(s), text: wildcard.Compile(s)}
}

// match compares v as a duration, otherwise as a quantity, otherwise (for equality) as text. A missing value counts as 0.
func (t *term) match(v any) bool {
	if t.op == inRange {
		return t.contains(v)
	}
	if sign, ok := compare(&t.bound, v); ok {
		return decide(t.op, sign)
	}
	if t.op != equal && t.op != notEqual {
		return false
	}
	text, ok := scalarText(v)
	return ok && t.text.Match(text) == (t.op == equal) // a map or list has no text that could differ
}

func (t *term) contains(v any) bool {
	low, okLow := compare(&t.interval.Low, v)
	high, okHigh := compare(&t.interval.High, v)
	if t.interval.Outside {
		return okLow && low < 0 || okHigh && high > 0
	}
	return okLow && low >= 0 && okHigh && high <= 0
}

// compare returns the sign of v minus the bound; ok is false if they cannot be compared. A missing value counts as 0.
func compare(b *measure.Bound, v any) (sign int, ok bool) {
	switch v := v.(type) {
	case nil:
		return b.CompareInt(0)
	case string:
		return b.Compare(v)
	case int64:
		return b.CompareInt(v)
	case int:
		return b.CompareInt(int64(v))
	case float64:
		return compareFloat(b, v)
	}
	return 0, false
}

// compareFloat compares a float only as a quantity: Kyverno writes it with decimals, so that even 0 is not a duration (the
// whole number 0 is one).
func compareFloat(b *measure.Bound, f float64) (sign int, ok bool) {
	limit, ok := b.Quantity()
	if !ok {
		return 0, false
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return measure.QuantityOf(int64(f)).Cmp(limit), true
	}
	q, ok := measure.ParseQuantity(strconv.FormatFloat(f, 'f', -1, 64))
	if !ok {
		return 0, false
	}
	return q.Cmp(limit), true
}

func decide(op operator, sign int) bool {
	switch op {
	case equal:
		return sign == 0
	case notEqual:
		return sign != 0
	case less:
		return sign < 0
	case lessOrEqual:
		return sign <= 0
	case greater:
		return sign > 0
	case greaterOrEqual:
		return sign >= 0
	}
	return false
}

// scalarText returns the text with which a value is compared; ok is false for maps, lists and missing values.
func scalarText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case int:
		return strconv.Itoa(v), true
	case float64:
		// Kyverno writes a float with an exponent here: 1000 is 1E+03, so "1000*" does not match it.
		return strconv.FormatFloat(v, 'E', -1, 64), true
	}
	return "", false
}

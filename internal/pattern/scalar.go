package pattern

import (
	"math"
	"strconv"

	"ephor.invalid/ephor/internal/value"
)

// MatchScalar reports whether the scalar pattern p accepts the resource value v. It implements the value language of validation
// patterns, which conditions inside mutation patches also use. p may be a string, bool, number or nil; a map or list as pattern
// accepts only an equal value. It compiles p in each call; use CompileScalar to compile it once.
func MatchScalar(p, v any) bool {
	s := CompileScalar(p)
	return s.Match(v)
}

// Scalar is a compiled scalar pattern. The zero Scalar is the pattern null.
type Scalar struct {
	kind scalarKind
	b    bool
	i    int64
	f    float64
	text *text
	raw  any
}

type scalarKind uint8

const (
	nullScalar scalarKind = iota
	boolScalar
	intScalar
	floatScalar
	textScalar
	otherScalar
)

// CompileScalar compiles a scalar pattern: it parses a string as the operator language.
func CompileScalar(p any) Scalar {
	switch p := p.(type) {
	case nil:
		return Scalar{}
	case bool:
		return Scalar{kind: boolScalar, b: p, raw: p}
	case int:
		return Scalar{kind: intScalar, i: int64(p), raw: p}
	case int64:
		return Scalar{kind: intScalar, i: p, raw: p}
	case float64:
		return Scalar{kind: floatScalar, f: p, raw: p}
	case string:
		return Scalar{kind: textScalar, text: compileText(p), raw: p}
	}
	return Scalar{kind: otherScalar, raw: p}
}

// Match reports whether v is accepted. A missing value is nil. It allocates nothing for the usual values.
func (s *Scalar) Match(v any) bool {
	switch s.kind {
	case nullScalar:
		return isZero(v)
	case boolScalar:
		b, ok := v.(bool)
		return ok && b == s.b
	case intScalar:
		return matchInt(s.i, v)
	case floatScalar:
		return matchFloat(s.f, v)
	case textScalar:
		return s.text.match(v)
	}
	return value.Equal(s.raw, v)
}

// numberPerStep is the number of bytes of a text that are read as a number in one step.
const numberPerStep = 4

// cost returns the number of steps that Match(v) counts for.
func (s *Scalar) cost(v any) int {
	if s.kind == textScalar {
		return s.text.cost(v)
	}
	text, _ := v.(string)
	return len(text) / numberPerStep
}

// isZero is the pattern null: it accepts missing values and the zero value of each scalar type.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case int64:
		return v == 0
	case float64:
		return v == 0
	case int:
		return v == 0
	}
	return false
}

// matchInt accepts a whole number equal to want, and text of that whole number.
func matchInt(want int64, v any) bool {
	switch v := v.(type) {
	case int64:
		return v == want
	case int:
		return int64(v) == want
	case float64:
		return v == math.Trunc(v) && v == float64(want)
	case string:
		i, err := strconv.ParseInt(v, 10, 64)
		return err == nil && i == want
	}
	return false
}

// matchFloat accepts a number equal to want, and text of that number.
func matchFloat(want float64, v any) bool {
	switch v := v.(type) {
	case int64:
		return float64(v) == want
	case int:
		return float64(v) == want
	case float64:
		return v == want
	case string:
		f, err := strconv.ParseFloat(v, 64)
		return err == nil && f == want
	}
	return false
}

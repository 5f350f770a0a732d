package jmespath

import (
	"strconv"

	"ephor.invalid/ephor/internal/value"
)

// textOf returns an argument that may be a string or a number as text.
func textOf(v any) (string, bool) {
	if s, ok := v.(string); ok {
		return s, true
	}
	if f, ok := value.Float(v); ok {
		return numberText(f), true
	}
	return "", false
}

// numberText writes a number without exponent.
func numberText(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// text returns an argument whose type was checked to be a string or a number.
func text(v any) string {
	s, _ := textOf(v)
	return s
}

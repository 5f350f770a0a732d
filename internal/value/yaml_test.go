package value_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// TestDecodeYAML: the lengths are known before the text is read, with its aliases replaced.
func TestDecodeYAML(t *testing.T) {
	for _, c := range []struct {
		text    string
		lengths []int
	}{
		{"a: [1, yes]", []int{11}},
		{"a: &x {b: c}\nd: *x\n", []int{19, 26}},
		{"a: &x abc\nb: *x\nc: [*x, *x]\n", []int{28, 35}},
	} {
		var lengths []int
		_, err := value.DecodeYAML(c.text, func(n int) error { lengths = append(lengths, n); return nil })
		if err != nil || !slices.Equal(lengths, c.lengths) {
			t.Errorf("%q: %v, want %v: %v", c.text, lengths, c.lengths, err)
		}
	}
	tooMuch := errors.New("too much")
	bomb := "a: &a [x, x]\n"
	for c := 'b'; c <= 'z'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+", ", 9) + "]\n"
	}
	for _, text := range []string{bomb, "&a [*a]", "a: &a {b: *a}"} {
		if _, err := value.DecodeYAML(text, func(n int) error {
			if n == math.MaxInt32 {
				return tooMuch
			}
			return nil
		}); !errors.Is(err, tooMuch) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

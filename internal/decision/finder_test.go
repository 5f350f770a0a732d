package decision

import (
	"math/rand/v2"
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/value"
)

// A finder gives the same results as withoutSecrets, for texts with and without the values.
func TestFinder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	word := func(least, most int) string {
		b := make([]byte, least+random.IntN(most-least+1))
		for i := range b {
			b[i] = "abcx \xff"[random.IntN(6)]
		}
		return string(b)
	}
	hidden := 0
	for range 20_000 {
		var values []string
		for range random.IntN(4) {
			values = append(values, word(random.IntN(5), 8)+"y")
		}
		longestFirst(values)
		text := word(0, 30)
		if len(values) > 0 && random.IntN(2) == 0 {
			text += values[random.IntN(len(values))] + word(0, 5)
		}
		want := withoutSecrets(text, values)
		if got := newFinder(values).hide(text); got != want {
			t.Fatalf("%q without %q: %q, want %q", text, values, got, want)
		}
		if want != text {
			hidden++
		}
	}
	if hidden < 1000 {
		t.Errorf("only %d texts have values", hidden)
	}
	if got := newFinder([]string{"value"}).hide(strings.Repeat("x", value.MaxMessage)); got != Redacted {
		t.Errorf("a text that was cut at its end becomes %.20q", got)
	}
}

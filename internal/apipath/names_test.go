package apipath

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// Names match these regular expressions, whose compiled programs would take half a megabyte.
func TestNames(t *testing.T) {
	for _, c := range []struct {
		name   string
		is     func(string) bool
		wanted *regexp.Regexp
	}{
		{"label", isLabel, regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)},
		{"domain", isDomain, regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)},
		{"segment", isSegment, regexp.MustCompile(`^[A-Za-z0-9._:~@+=,-]{1,253}$`)},
	} {
		check := func(text string) {
			t.Helper()
			if got, want := c.is(text), c.wanted.MatchString(text); got != want {
				t.Errorf("%s %q: %v, want %v", c.name, text, got, want)
			}
		}
		for n := range 256 {
			char := string([]byte{byte(n)})
			for _, text := range []string{char, char + "a", "a" + char, "a" + char + "a", string(rune(n + 128))} {
				check(text)
			}
		}
		for n := range 260 {
			check(strings.Repeat("a", n))
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			text := make([]byte, random.IntN(8))
			for i := range text {
				text[i] = "az09-.A:~é\n"[random.IntN(11)]
			}
			check(string(text))
		}
	}
}

package convert

import "testing"

// A negation changes the operator of the whole expression only.
func TestNot(t *testing.T) {
	for text, want := range map[string]string{
		"a == 'x'":                         "a != 'x'",
		"a != 'x == y'":                    "a == 'x == y'",
		"(b == 'D' ? c : d).e in ['x']":    "!((b == 'D' ? c : d).e in ['x'])",
		"(b == 'D' ? c : d).e == 'it\\'s'": "(b == 'D' ? c : d).e != 'it\\'s'",
		"l.exists(e, e == 'x') == true":    "l.exists(e, e == 'x') != true",
	} {
		if got := not(comparison(text)).text; got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

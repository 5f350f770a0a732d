package typecheck

import (
	"slices"
	"testing"
)

func TestSkipToken(t *testing.T) {
	for in, want := range map[string][]string{
		`a.b{c: 'x}'}`:        {"a", ".", "b", "{", "c", ":", " ", "'x}'", "}"},
		`'''a'b''' r'\' "\""`: {"'''a'b'''", " ", `r'\'`, " ", `"\""`},
		"a // b\nc":           {"a", " ", "// b\n", "c"},
		`b"x" bx "open`:       {`b"x"`, " ", "bx", " ", `"open`},
		`'\`:                  {`'\`},
	} {
		var got []string
		for at := 0; at < len(in); {
			next := SkipToken(in, at)
			if next <= at || next > len(in) {
				t.Fatalf("%q: from %d to %d", in, at, next)
			}
			got, at = append(got, in[at:next]), next
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

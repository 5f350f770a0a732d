package strict

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "abc", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"hostNetwrok", "hostNetwork", 2}, {"kind", "kinds", 1},
		{strings.Repeat("a", 65), strings.Repeat("a", 65), 64},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"name", "namespace", "kinds", "operations"}
	for key, want := range map[string]string{"kind": "kinds", "Namespace": "namespace", "operation": "operations", "opertaions": "operations", "labels": "", "": ""} {
		if got := Nearest(key, names); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}

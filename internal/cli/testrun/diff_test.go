package testrun

import (
	"fmt"
	"strings"
	"testing"
)

func TestLineDiff(t *testing.T) {
	numbers := func(n int, changes map[int]string) []string {
		var out []string
		for i := range n {
			if s, ok := changes[i]; ok {
				if s != "" {
					out = append(out, s)
				}
				continue
			}
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	for _, c := range []struct {
		name string
		a, b []string
		want string
	}{
		{"changed", numbers(3, nil), numbers(3, map[int]string{1: "x"}), "  0\n- 1\n+ x\n  2"},
		{"added", []string{"a"}, []string{"a", "x"}, "  a\n+ x"},
		{"removed", []string{"a", "x"}, []string{"a"}, "  a\n- x"},
		{"far from the beginning", numbers(9, nil), numbers(9, map[int]string{6: "x"}), "  …\n  3\n  4\n  5\n- 6\n+ x\n  7\n  8"},
		{"far from the end", numbers(9, nil), numbers(9, map[int]string{0: "x"}), "- 0\n+ x\n  1\n  2\n  3\n  …"},
		{"far from each other", numbers(20, nil), numbers(20, map[int]string{2: "x", 17: ""}),
			"  0\n  1\n- 2\n+ x\n  3\n  4\n  5\n  …\n  14\n  15\n  16\n- 17\n  18\n  19"},
	} {
		if got := strings.Join(lineDiff(strings.Join(c.a, "\n"), strings.Join(c.b, "\n")), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

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
		{"equal", numbers(2, nil), numbers(2, nil), "  …"},
		{"changed", numbers(3, nil), numbers(3, map[int]string{1: "x"}), "  0\n- 1\n+ x\n  2"},
		{"added", nil, []string{"x"}, "+ x"},
		{"removed", []string{"x"}, nil, "- x"},
		{"far from each other", numbers(20, nil), numbers(20, map[int]string{2: "x", 17: ""}),
			"  0\n  1\n- 2\n+ x\n  3\n  4\n  5\n  …\n  14\n  15\n  16\n- 17\n  18\n  19"},
	} {
		if got := strings.Join(lineDiff(c.a, c.b), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
	long := numbers(diffLimit+1, nil)
	if got := diffOps(long, long[:1]); len(got) != len(long)+1 || got[0] != "- 0" || got[len(got)-1] != "+ 0" {
		t.Errorf("texts beyond the limit: %d lines", len(got))
	}
}

package lint

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/autogen"
)

// An exception names a rule twice by the name of a derived rule, which may be cut, or by a pattern for its end.
func TestDerives(t *testing.T) {
	long := strings.Repeat("long-", 12) + "end"
	controllers, cronJobs := autogen.Derived(long)
	for _, c := range []struct {
		authored, name string
		want           bool
	}{
		{"check", "check", false},
		{"check", "autogen-check", true},
		{"check", "autogen-cronjob-check", true},
		{"check", "autogen-other", false},
		{"check", "*check", true},
		{"check", "*", false},
		{long, long, false},
		{long, controllers, true},
		{long, cronJobs, true},
	} {
		if got := derives([]string{c.authored, c.name}, c.name); got != c.want {
			t.Errorf("%s beside %s: %v", c.name, c.authored, got)
		}
	}
}

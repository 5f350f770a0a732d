package convert

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/autogen"
)

// A result names a rule, or one that autogen derives from it, whose name may be cut.
func TestAuthoredOf(t *testing.T) {
	long := strings.Repeat("long-", 12) + "end"
	controllers, cronJobs := autogen.Derived(long)
	rules := []string{"check", "autogen-mine", long}
	for name, want := range map[string]string{
		"check": "check", "autogen-check": "check", "autogen-cronjob-check": "check", "autogen-mine": "autogen-mine", "autogen-autogen-mine": "autogen-mine",
		long: long, controllers: long, cronJobs: long, "other": "other", "autogen-other": "autogen-other",
	} {
		if got := authoredOf(rules, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

package apply

import (
	"strings"
	"testing"

	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// Only a terminal gets colours, unless the user forbids them.
func TestColors(t *testing.T) {
	entry := report.Entry{Program: &policy.Program{Name: "p"}, Rule: &policy.Rule{}, Resource: &report.Resource{Kind: "Pod", Name: "p"}, Status: policy.StatusPass}
	for _, c := range []struct{ terminal, forbidden, colored bool }{{true, false, true}, {false, false, false}, {true, true, false}} {
		var b strings.Builder
		o := options{removeColor: c.forbidden}
		o.printTable(&b, []report.Entry{entry}, c.terminal)
		for _, code := range []string{"\x1b[40;32mPOLICY", "\x1b[32mPass"} {
			if strings.Contains(b.String(), code) != c.colored {
				t.Errorf("%+v: %q", c, b.String())
			}
		}
	}
}

package testrun

import (
	"strings"
	"testing"
)

// Only a terminal gets colours, unless the user or the format forbids them.
func TestColors(t *testing.T) {
	for _, c := range []struct {
		printer testPrinter
		colored bool
	}{
		{testPrinter{terminal: true}, true},
		{testPrinter{}, false},
		{testPrinter{terminal: true, noColor: true}, false},
		{testPrinter{format: "markdown", terminal: true, noColor: true}, false},
	} {
		var b strings.Builder
		if err := c.printer.print(&b, []testRow{{Policy: "p", Result: rowPass}}); err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{"\x1b[40;32mPOLICY", "\x1b[32mPass"} {
			if strings.Contains(b.String(), code) != c.colored {
				t.Errorf("%+v: %q", c.printer, b.String())
			}
		}
	}
}

package testrun

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v2"

	"ephor.invalid/ephor/internal/cli/terminal"
)

// yamlText formats a value as YAML with sorted keys, for people.
func yamlText(v any) string {
	b, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// printDifferences prints the expected (-) and actual (+) values of failed rows below the table, or the reason why there was nothing to
// compare.
func printDifferences(w io.Writer, rows []testRow, paint func(s, color string) string) {
	for _, r := range rows {
		if r.Result != rowFail {
			continue
		}
		place := "policy " + r.Policy
		if r.Rule != "" {
			place += " rule " + r.Rule
		}
		if r.Resource != "" {
			place += " -> resource " + r.Resource
		}
		fmt.Fprintf(w, "\n%s: %s\n", terminal.Legible(place), terminal.Legible(r.Reason))
		if r.want == "" {
			fmt.Fprintln(w, "  "+terminal.Legible(r.Message))
		}
		if r.want == "" && r.got == "" {
			continue
		}
		fmt.Fprintln(w, "  "+paint("- expected", "31"))
		fmt.Fprintln(w, "  "+paint("+ got", "32"))
		for _, l := range lineDiff(terminal.Legible(r.want), terminal.Legible(r.got)) {
			switch l[0] {
			case '-':
				l = paint(l, "31")
			case '+':
				l = paint(l, "32")
			}
			fmt.Fprintln(w, "  "+l)
		}
	}
}

// lineDiff returns the difference of two texts: lines that begin with "- " are only in the first, lines with "+ " only
// in the second, and lines with two spaces in both. Equal parts far from a difference become one line "…".
func lineDiff(a, b string) (out []string) {
	ended := func(s string) []byte { return []byte(strings.TrimRight(s, "\n") + "\n") }
	old, shown := ended(a), 0 // lines of the first text that come before the rest
	for i, l := range strings.Split(strings.TrimSuffix(string(diff.Diff("", old, "", ended(b))), "\n"), "\n") {
		switch {
		case i < 3: // the header
		case strings.HasPrefix(l, "@@"):
			var start, count int
			_, _ = fmt.Sscanf(l, "@@ -%d,%d", &start, &count) // the library writes it so
			if start > 1 {
				out = append(out, "  …")
			}
			shown = start + count - 1
		default:
			out = append(out, l[:1]+" "+l[1:])
		}
	}
	if shown < bytes.Count(old, []byte("\n")) {
		out = append(out, "  …")
	}
	return out
}

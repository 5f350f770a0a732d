package testrun

import (
	"fmt"
	"io"
	"strings"

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
		for _, l := range lineDiff(lines(terminal.Legible(r.want)), lines(terminal.Legible(r.got))) {
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

func lines(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

const (
	diffContext = 3    // equal lines that are shown around a difference
	diffLimit   = 2000 // number of lines above which the texts are shown one after the other
)

// lineDiff returns the difference of two texts: lines that begin with "- " are only in the first, lines with "+ " only
// in the second, and lines with two spaces in both. Equal parts far from a difference become one line "…".
func lineDiff(a, b []string) []string {
	return abridge(diffOps(a, b))
}

func diffOps(a, b []string) []string {
	var out []string
	if len(a) > diffLimit || len(b) > diffLimit {
		for _, l := range a {
			out = append(out, "- "+l)
		}
		for _, l := range b {
			out = append(out, "+ "+l)
		}
		return out
	}
	// common[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, "  "+a[i])
			i++
			j++
		case i < len(a) && (j == len(b) || common[i+1][j] >= common[i][j+1]):
			out = append(out, "- "+a[i])
			i++
		default:
			out = append(out, "+ "+b[j])
			j++
		}
	}
	return out
}

// abridge removes equal lines that are more than a few lines away from any difference.
func abridge(all []string) []string {
	keep := make([]bool, len(all))
	for i, l := range all {
		if l[0] == ' ' {
			continue
		}
		for k := max(0, i-diffContext); k <= min(len(all)-1, i+diffContext); k++ {
			keep[k] = true
		}
	}
	var out []string
	for i, l := range all {
		switch {
		case keep[i]:
			out = append(out, l)
		case i == 0 || keep[i-1]:
			out = append(out, "  …")
		}
	}
	return out
}

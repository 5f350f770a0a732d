package terminal

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"ephor.invalid/ephor/internal/diag"
)

// PrintMistakes prints every diagnostic once. It sorts them by file, in the order of the input, and then by line.
func PrintMistakes(w io.Writer, diags diag.List) {
	file := map[string]int{}
	for _, d := range diags {
		if _, known := file[d.Pos.File]; !known {
			file[d.Pos.File] = len(file)
		}
	}
	sorted := slices.Clone(diags)
	slices.SortStableFunc(sorted, func(a, b diag.Diagnostic) int {
		return cmp.Or(file[a.Pos.File]-file[b.Pos.File], a.Pos.Line-b.Pos.Line)
	})
	seen := map[string]bool{}
	for _, d := range sorted {
		if s := Legible(d.String()); !seen[s] {
			seen[s] = true
			fmt.Fprintln(w, s)
		}
	}
}

// PrintNote prints a sentence that is no mistake, unless it is empty.
func PrintNote(w io.Writer, note fmt.Stringer) {
	if s := note.String(); s != "" {
		fmt.Fprintln(w, s)
	}
}

// Mistaken returns an error that lists all mistakes, each on its own line.
func Mistaken(attempt string, diags diag.List) error {
	text := ""
	for _, d := range diags.Errors() {
		text += "\n  " + d.String()
	}
	return fmt.Errorf("%s:%s", attempt, text)
}

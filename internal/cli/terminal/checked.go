package terminal

import (
	"fmt"
	"io"

	"ephor.invalid/ephor/internal/diag"
)

// Checked counts what a run read and what it found. A run that found nothing because nothing was checked is not a success: each command
// asks Unchecked at its end, so that one place decides what that means.
type Checked struct {
	Policies int
	// Inputs is the number of objects that policies were evaluated on, and Input their name, such as resources. Without a name, the run
	// evaluates nothing.
	Inputs int
	Input  string
	// Results is the number of results, whatever they are.
	Results int
}

// Unchecked returns the warning that nothing was checked; nil if something was, or if a mistake among diags is the reason.
func (c Checked) Unchecked(diags diag.List) diag.List {
	text, hint := "", ""
	switch {
	case diags.HasErrors():
		return nil
	case c.Policies == 0:
		text, hint = "there is no policy", "name files or folders that hold policies"
	case c.Input == "":
		return nil
	case c.Inputs == 0:
		text, hint = "there are no "+c.Input, holders
	case c.Results == 0:
		text, hint = "no rule applies to the "+c.Input, "compare the kinds, names and selectors of the rules with them; `ephor explain` says why a rule does not apply"
	default:
		return nil
	}
	return diag.List{NothingChecked(text, hint)}
}

const holders = "name files or folders that hold them"

// Absent returns the warning that a run found none of what it reads, such as exceptions; nil if it found n of them, or if a mistake among
// diags is the reason.
func Absent(n int, what string, diags diag.List) diag.List {
	if n > 0 || diags.HasErrors() {
		return nil
	}
	return diag.List{NothingChecked("there are no "+what, holders)}
}

// NothingChecked returns the warning that nothing was checked.
func NothingChecked(why, hint string) diag.Diagnostic {
	return diag.Diagnostic{Severity: diag.Warning, Code: diag.Unchecked, Summary: "nothing was checked: " + why, Hint: hint}
}

// Strict returns the exit code with which --strict ends a run without errors: 1 if a warning is about something that was not checked. It
// says so.
func Strict(w io.Writer, strict bool, diags diag.List) int {
	n := 0
	for _, d := range diags {
		if d.Code == diag.Unchecked {
			n++
		}
	}
	if !strict || n == 0 {
		return 0
	}
	fmt.Fprintf(w, "Error: %s not checked, and --strict is set\n", Counted(n, "thing was", "things were"))
	return 1
}

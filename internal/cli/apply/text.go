package apply

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"ephor.invalid/ephor/internal/cli/load"
	"ephor.invalid/ephor/internal/cli/offline"
	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/diag"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// shown reports whether the text output shows results with that status. Other results are only counted.
func shown(s policy.Status) bool { return s == policy.StatusFail || s == policy.StatusWarn }

var ruleLine = strings.Repeat("-", 70)

// printText prints the banner, the refused policies, the failures by policy and resource, and the counters.
func (o *options) printText(out io.Writer, set load.PolicySet, exceptions int, result evaluated) {
	w := terminal.LegibleWriter(out)
	if !o.pipe {
		with := ""
		if exceptions > 0 {
			with = fmt.Sprintf(" with %d exception(s)", exceptions)
		}
		fmt.Fprintf(w, "\nApplying %d policy rule(s) to %d resource(s)%s...\n", set.Rules(), result.resources, with)
	}
	printRefused(w, set.Refused)
	changes := 0
	for i := range result.changes {
		if c := &result.changes[i]; !c.silent(o.output != "", o.pipe) {
			c.print(out, o.output != "", o.pipe) // objects need no conversion: YAML escapes control characters
			changes++
		}
	}
	if changes > 0 && len(result.entries) > 0 {
		fmt.Fprintln(w) // as in Kyverno, the text before has no line break at its end
	}
	entries := result.entries
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && entries[n].Program == entries[0].Program && entries[n].Resource == entries[0].Resource {
			n++
		}
		o.printFailures(w, entries[:n])
		entries = entries[n:]
	}
	s := result.summary
	fmt.Fprintf(w, "\npass: %d, fail: %d, warn: %d, error: %d, skip: %d \n", s.Pass, s.Fail, s.Warn, s.Error, s.Skip)
}

// printRefused lists the policies that are not applied.
func printRefused(w io.Writer, refused []load.Refusal) {
	var skipped, invalid []load.Refusal
	for _, r := range refused {
		if r.ElementOnly() {
			invalid = append(invalid, r)
		} else {
			skipped = append(skipped, r)
		}
	}
	for _, list := range []struct {
		title    string
		policies []load.Refusal
	}{{"Policies Skipped:", skipped}, {"Invalid Policies:", invalid}} {
		if len(list.policies) == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\n%s\n", ruleLine, list.title)
		for i, r := range list.policies {
			fmt.Fprintf(w, "%d. %s (%s)\n", i+1, r.Name, cmp.Or(r.Errors[0].Pos.String(), "its mistakes are listed before"))
		}
		fmt.Fprintln(w, ruleLine)
	}
}

// printUncompiled names the policies that are not applied. Their mistakes are printed before, with positions.
func printUncompiled(w io.Writer, refused []load.Refusal) {
	if len(refused) == 0 {
		return
	}
	names := make([]string, len(refused))
	for i, r := range refused {
		names[i] = r.Name
	}
	fmt.Fprintf(w, "Error: %s not applied: %s\n", terminal.Counted(len(refused), "policy is", "policies are"), strings.Join(names, ", "))
}

// printFailures prints the failures of one policy on one resource.
func (o *options) printFailures(w io.Writer, entries []report.Entry) {
	n := 0
	audit := o.auditWarn
	for i := range entries {
		if shown(entries[i].Status) {
			n++
			audit = audit && !entries[i].Action.Has(policy.Deny)
		}
	}
	if n == 0 {
		return
	}
	verdict := "failed:"
	if audit {
		verdict = "failed as audit warning:"
	}
	fmt.Fprintf(w, "policy %s -> resource %s %s\n", entries[0].Program.Name, entries[0].Resource, verdict)
	n = 0
	for i := range entries {
		e := &entries[i]
		if !shown(e.Status) {
			continue
		}
		n++
		message := policy.Explained(e.Message, e.Properties)
		if message == "" {
			message = "validation failed"
		}
		fmt.Fprintf(w, "%d - %s %s\n", n, e.Rule.Name, message)
	}
}

// errorsOf returns a diagnostic with the reason for each rule that ended in an error. It calls pos only for such rules,
// since finding the position of a resource takes longer than evaluating it.
func errorsOf(entries []report.Entry, pos func(path string) diag.Position) (out diag.List) {
	for i := range entries {
		if e := &entries[i]; e.Status == policy.StatusError {
			text, hint := offline.Explain(e.Message, e.Cause)
			out.Add(diag.Diagnostic{Pos: pos(""), Summary: "policy " + e.Program.Name + " -> resource " + e.Resource.String() + ": " + errorIn(e) + text, Hint: hint})
		}
	}
	return out
}

// errorIn names the rule of an error, if the rule has a name.
func errorIn(e *report.Entry) string {
	if e.RuleName() == "" {
		return ""
	}
	return "error in rule " + e.RuleName() + ": "
}

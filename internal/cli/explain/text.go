package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	notes "ephor.invalid/ephor/internal/trace"
	"ephor.invalid/ephor/internal/value"
)

// print writes the explanation for people: the verdict first, then the facts that led to it.
func (x *explanation) print(w io.Writer) {
	fmt.Fprintf(w, "policy %s%s -> resource %s: %s\n", x.Policy, x.named(), x.Resource, x.Verdict)
	place := x.Position
	if x.Kind != "" {
		place = x.Kind + " at " + place
	}
	if x.Action != "" {
		place += ", " + x.Action
	}
	fmt.Fprintf(w, "  %s\n", place)
	if x.Message != "" {
		fmt.Fprintf(w, "  message: %s\n", x.Message)
	}
	sentences(w, "decided by", x.Decided)
	sentences(w, "to pass", x.ToPass)
	if x.Verdict == verdictNotRun || x.Verdict == verdictElse || x.Verdict == verdictInput || x.Verdict == verdictNoMatch && x.autogen {
		return // the lines above explain the verdict
	}
	for _, f := range x.Filters {
		fmt.Fprintf(w, "  %s %s\n", f.Path, outcome(f.Holds, "holds", "does not hold"))
		for _, c := range f.Clauses {
			fmt.Fprintf(w, "    %s %s: %s, found %s%s\n", mark(c.Holds), c.Path[strings.LastIndex(c.Path, ".")+1:], oneLine(c.Want), oneLine(c.Got), because(c.Error))
		}
	}
	variables(w, "context", x.Notes.Context)
	variables(w, "variables", x.Notes.Variables)
	if len(x.Notes.Conditions) > 0 {
		fmt.Fprintln(w, "  conditions")
		for _, c := range x.Notes.Conditions {
			fmt.Fprintf(w, "    %s %s: %s\n", mark(c.Holds), x.below(c.Path), sentenceOf(c))
		}
	}
	if len(x.Notes.Patterns) > 0 {
		fmt.Fprintln(w, "  patterns")
		for _, p := range x.Notes.Patterns {
			at := x.below(p.Path)
			if p.Status == "pass" {
				fmt.Fprintf(w, "    %s %s fits\n", mark(true), at)
				continue
			}
			fmt.Fprintf(w, "    %s %s: %s\n", mark(false), x.below(p.Node), message(p))
		}
	}
	signatures(w, x.Notes.Attestors)
	if x.Notes.Dropped > 0 {
		fmt.Fprintf(w, "  and %d more notes\n", x.Notes.Dropped)
	}
}

// named returns the name of the rule for the first line. A policy in CEL is one rule without a name, and has further ones
// generated for controllers of Pods.
func (x *explanation) named() string {
	switch {
	case x.Rule != "":
		return ", rule " + x.Rule
	case x.controllers != "":
		return ", generated for " + x.controllers
	}
	return ""
}

func sentences(w io.Writer, title string, list []string) {
	for _, s := range list {
		fmt.Fprintf(w, "  %s: %s\n", title, s)
	}
}

func variables(w io.Writer, title string, list []notes.Variable) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "  %s\n", title)
	for _, v := range list {
		if v.Error != "" {
			why, _ := reason(v.Error, v.Err)
			fmt.Fprintf(w, "    %s has no value: %s\n", strings.TrimSpace(v.Name), why)
		} else {
			fmt.Fprintf(w, "    %s = %s\n", strings.TrimSpace(v.Name), oneLine(v.Value))
		}
		for _, p := range v.Parts {
			indent := strings.Repeat("  ", min(p.Depth, maxIndent))
			if p.Error != "" {
				fmt.Fprintf(w, "      %s%s has no value: %s\n", indent, p.Source, p.Error)
			} else {
				fmt.Fprintf(w, "      %s%s = %s\n", indent, p.Source, oneLine(p.Value))
			}
		}
	}
}

// maxIndent is the maximum indentation of the parts of an expression.
const maxIndent = 10

func outcome(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

func mark(ok bool) string { return outcome(ok, "✓", "✗") }

func because(err string) string {
	if err == "" {
		return ""
	}
	return " (" + err + ")"
}

// maxShown is the length to which the text output cuts values. The output of -o json is complete.
const maxShown = 160

// oneLine formats a value on one line, as JSON. A list of one text becomes that text.
func oneLine(v any) string {
	if n, ok := v.(notes.Notation); ok {
		return shorten(string(n))
	}
	b, err := json.Marshal(v) // the trace may hold values of API types
	if err != nil {
		return fmt.Sprint(v)
	}
	plain, err := value.DecodeJSON(b)
	if err != nil {
		return string(b)
	}
	text := ""
	switch p := plain.(type) {
	case []any:
		parts := make([]string, len(p))
		for i, e := range p {
			parts[i] = value.JSON(e)
		}
		text = "[" + strings.Join(parts, ", ") + "]"
	case nil:
		text = "nothing"
	default:
		text = value.JSON(plain)
	}
	return shorten(text)
}

func shorten(text string) string {
	if r := []rune(text); len(r) > maxShown {
		return string(r[:maxShown]) + "…"
	}
	return text
}

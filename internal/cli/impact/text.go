package impact

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/impact"
	"ephor.invalid/ephor/internal/value"
)

// maxRows is the maximum number of rows in a table. The output of -o json has all rows.
const maxRows = 20

// table writes a report for people: the effects on requests with counts, the namespaces and users, examples, and what is unknown.
func table(w io.Writer, r *impact.Report) error {
	fmt.Fprintf(w, "%s, of which %d are requests for admission, %d for the policies\n", terminal.Counted(r.Records, "record", "records"), r.Requests, r.Matched)
	if r.From != nil {
		fmt.Fprintf(w, "from %s to %s\n", r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339))
	}
	rows := [][]string{{"", "REFUSED", "WARNED", "CHANGED", "ERRED", "VIOLATING", "EXEMPT"}, append([]string{"these policies"}, numbers(r.After)...)}
	if r.Before != nil {
		rows = append(rows, append([]string{"in force"}, numbers(*r.Before)...))
	}
	if err := write(w, rows); err != nil {
		return err
	}
	if e := r.Effect; e != nil {
		fmt.Fprintf(w, "\n%d newly refused, %d no longer refused, %d answered otherwise\n", e.NewlyRefused, e.NoLongerRefused, e.Differing)
	}
	rows = [][]string{{"POLICY", "RULE", "ACTION", "PASS", "FAIL", "WARN", "ERROR", "SKIP", "REFUSED"}}
	for _, x := range r.Rules {
		rows = append(rows, []string{x.Policy, cmp.Or(x.Rule, "-"), x.Action, strconv.Itoa(x.Pass), strconv.Itoa(x.Fail), strconv.Itoa(x.Warn), strconv.Itoa(x.Error), strconv.Itoa(x.Skip), strconv.Itoa(x.Refused)})
	}
	tables := [][][]string{rows, groups("NAMESPACE", r.Namespaces), nil, groups("USER", r.Users)}
	rows = [][]string{{"NAMESPACE", "OWNER", "WHOSE", "REQUESTS", "REFUSED", "WARNED", "CHANGED", "ERRED", "VIOLATING"}}
	for _, x := range r.Owners {
		rows = append(rows, append([]string{cmp.Or(x.Namespace, "-"), x.Owner, cmp.Or(x.Whose, "-"), strconv.Itoa(x.Requests)}, numbers(x.Counts)[:5]...))
	}
	tables[2] = rows
	for _, rows := range tables {
		if err := write(w, rows); err != nil {
			return err
		}
	}
	for i := range r.Examples {
		example(w, &r.Examples[i])
	}
	if len(r.Unreadable) > 0 {
		fmt.Fprintln(w, "\nNot read:")
		for _, m := range r.Unreadable {
			fmt.Fprintf(w, "- %s: %s\n", m.At, m.Error)
		}
	}
	if len(r.Lacks) > 0 {
		fmt.Fprintln(w, "\nNot known:")
		for _, l := range r.Lacks {
			fmt.Fprintf(w, "- %s (%s)\n", l.What, terminal.Counted(l.Requests, "request", "requests"))
		}
	}
	return nil
}

func numbers(c impact.Counts) []string {
	out := []string{}
	for _, n := range []int{c.Refused, c.Warned, c.Changed, c.Erred, c.Violating, c.Exempt} {
		out = append(out, strconv.Itoa(n))
	}
	return out
}

func groups(title string, list []impact.Group) [][]string {
	rows := [][]string{{title, "REQUESTS", "REFUSED", "WARNED", "CHANGED", "ERRED", "VIOLATING"}}
	compared := len(list) > 0 && list[0].Effect != nil
	if compared {
		rows[0] = append(rows[0], "NEWLY-REFUSED", "NO-LONGER-REFUSED")
	}
	for _, g := range list {
		row := append([]string{cmp.Or(g.Name, "-"), strconv.Itoa(g.Requests)}, numbers(g.Counts)[:5]...)
		if compared {
			row = append(row, strconv.Itoa(g.NewlyRefused), strconv.Itoa(g.NoLongerRefused))
		}
		rows = append(rows, row)
	}
	return rows
}

// write writes a table if it has rows besides the header.
func write(w io.Writer, rows [][]string) error {
	if len(rows) < 2 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for i, row := range rows {
		if i > maxRows {
			break
		}
		for j, cell := range row {
			row[j] = terminal.Plain(cell)
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(row, "\t"), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if more := len(rows) - 1 - maxRows; more > 0 {
		fmt.Fprintf(w, "and %d more; -o json lists all\n", more)
	}
	return nil
}

// example writes one request with all details.
func example(w io.Writer, x *impact.Example) {
	resource := x.Resource.String()
	if x.Subresource != "" {
		resource += "/" + x.Subresource
	}
	fmt.Fprintf(w, "\n%s: %s %s", strings.ToUpper(x.Class[:1])+x.Class[1:], x.Operation, resource)
	if x.User != "" {
		fmt.Fprintf(w, " by %s", x.User)
	}
	if x.Time != nil {
		fmt.Fprintf(w, " at %s", x.Time.UTC().Format(time.RFC3339))
	}
	if x.DryRun {
		fmt.Fprint(w, " (dry run)")
	}
	fmt.Fprintf(w, "\n  %s", x.At)
	if x.UID != "" {
		fmt.Fprintf(w, ", UID %s", x.UID)
	}
	fmt.Fprintln(w)
	for _, s := range x.Rules {
		name := s.Policy
		if s.Rule != "" {
			name += ", rule " + s.Rule
		}
		fmt.Fprintf(w, "  %s (%s) of policy %s: %s\n", s.Status, s.Action, name, cmp.Or(s.Message, "-"))
		if s.Path != "" {
			fmt.Fprintf(w, "    at %s\n", s.Path)
		}
		if len(s.Exceptions) > 0 {
			fmt.Fprintf(w, "    exempt by %s\n", strings.Join(s.Exceptions, ", "))
		}
	}
	for _, text := range x.Failures {
		fmt.Fprintf(w, "  no answer: %s\n", text)
	}
	for _, text := range x.Warnings {
		fmt.Fprintf(w, "  warning: %s\n", text)
	}
	changes(w, x.Changes)
	if b := x.Before; b != nil {
		said := "admitted it"
		if !b.Allowed {
			said = "refused it: " + b.Message
		}
		fmt.Fprintf(w, "  in force: %s\n", said)
		changes(w, b.Changes)
	}
}

// maxShown is the length to which a change cuts values.
const maxShown = 200

func changes(w io.Writer, list []impact.Change) {
	for _, c := range list {
		text := func(v any) string { return value.Clip(value.JSON(v), maxShown) }
		switch {
		case c.From == nil && c.To == nil:
			fmt.Fprintf(w, "  %s %s\n", c.Op, c.Path)
		case c.Op == "add":
			fmt.Fprintf(w, "  + %s: %s\n", c.Path, text(c.To))
		case c.Op == "remove":
			fmt.Fprintf(w, "  - %s: %s\n", c.Path, text(c.From))
		default:
			fmt.Fprintf(w, "  - %s: %s\n  + %s: %s\n", c.Path, text(c.From), c.Path, text(c.To))
		}
	}
}

package apply

import (
	"io"
	"strconv"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/report"
)

// statusCells are the words and colours in the table for each status.
var statusCells = map[policy.Status]struct{ word, color string }{
	policy.StatusPass:  {"Pass", "32"},
	policy.StatusFail:  {"Fail", "31"},
	policy.StatusWarn:  {"Warn", "33"},
	policy.StatusError: {"Error", "31"},
	policy.StatusSkip:  {"Skip", "33"},
}

func (o *options) printTable(w io.Writer, entries []report.Entry, colored bool) {
	t := terminal.Table{Header: []string{"ID", "POLICY", "RULE", "RESOURCE", "RESULT", "REASON"}}
	if o.detailed {
		t.Header = append(t.Header, "MESSAGE")
	}
	paint := func(s, color string) string { return s }
	if colored && !o.removeColor {
		t.HeaderColor = "40;32"
		paint = func(s, color string) string { return "\x1b[" + color + "m" + s + "\x1b[0m" }
	}
	if len(entries) > 10 {
		t.Header[0] = "ID (" + strconv.Itoa(len(entries)) + ") "
	}
	for i := range entries {
		e := &entries[i]
		resource := e.Resource.Kind + "/" + e.Resource.Name
		if e.Resource.Namespace != "" {
			resource = e.Resource.Namespace + "/" + resource
		}
		if e.Resource.Kind == "" {
			resource = e.Resource.String()
		}
		cell := statusCells[e.Status]
		rule := e.Rule.Name
		if e.Rule.Offline.Whole {
			rule = ""
		}
		row := []string{strconv.Itoa(i + 1), e.PolicyName(), rule, resource, cell.word, ""}
		if o.detailed {
			row = append(row, e.Message)
		}
		t.Add(row, map[int]string{4: cell.color}, paint)
	}
	t.Write(w)
}

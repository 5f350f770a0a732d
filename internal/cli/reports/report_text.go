package reports

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compliance"
	"ephor.invalid/ephor/internal/value"
)

// columns writes rows in aligned columns, as kubectl does. It makes cells plain, since their texts are not trusted.
func columns(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = terminal.Plain(c)
		}
		if _, err := fmt.Fprintln(t, strings.Join(cells, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// section is a table of a summary: its title and its rows.
type section struct {
	title string
	lines []compliance.Line
	// unnamed is shown instead of an empty name.
	unnamed string
}

func sections(s compliance.Summary) []section {
	return []section{
		{"POLICY", s.ByPolicy, ""},
		{"NAMESPACE", s.ByNamespace, "-"},
		{"SEVERITY", s.BySeverity, compliance.NoSeverity},
		{"", []compliance.Line{s.Totals}, ""},
	}
}

// countHeader is the header for the cells of countCells.
var countHeader = []string{"PASS", "FAIL", "WARN", "ERROR", "SKIP"}

func countCells(c compliance.Counts) []string {
	return []string{strconv.Itoa(c.Pass), strconv.Itoa(c.Fail), strconv.Itoa(c.Warn), strconv.Itoa(c.Error), strconv.Itoa(c.Skip)}
}

// rows returns the rows of a section with their header.
func (s section) rows() [][]string {
	out := [][]string{append(append([]string{s.title}, countHeader...), "COMPLIANCE")}
	for _, l := range s.lines {
		name := l.Name
		if name == "" {
			name = s.unnamed
		}
		out = append(out, append(append([]string{name}, countCells(l.Counts)...), percent(l.Compliance)))
	}
	return out
}

func percent(share *float64) string {
	if share == nil {
		return "-"
	}
	return strconv.FormatFloat(*share, 'f', 1, 64) + "%"
}

// propertyText formats properties for one cell, sorted.
func propertyText(properties map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		out = append(out, key+"="+properties[key])
	}
	return strings.Join(out, "; ")
}

// messageWidth is the length to which a row of a table cuts messages, in bytes.
const messageWidth = 120

// resultRows returns rows for single results, with their header.
func resultRows(results []compliance.Result) [][]string {
	out := [][]string{{"RESULT", "SEVERITY", "POLICY", "RULE", "RESOURCE", "MESSAGE"}}
	for _, r := range results {
		severity := r.Severity
		if severity == "" {
			severity = compliance.NoSeverity
		}
		out = append(out, []string{string(r.Result), severity, r.Policy, r.Rule, r.Resource.String(), value.Clip(r.Message, messageWidth)})
	}
	return out
}

// reportTable writes the summary for people.
func reportTable(w io.Writer, s compliance.Summary, list bool) error {
	for _, section := range sections(s) {
		if len(section.lines) == 0 {
			continue
		}
		if err := columns(w, section.rows()); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	if list && len(s.Results) > 0 {
		if err := columns(w, resultRows(s.Results)); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintln(w, footer(s))
	return err
}

// footer describes what the numbers cover, and what is left out.
func footer(s compliance.Summary) string {
	text := terminal.Counted(s.Reports, "report", "reports")
	if s.Omitted > 0 {
		text += fmt.Sprintf("; %s not listed (--limit)", terminal.Counted(s.Omitted, "more result is", "more results are"))
	}
	return text
}

func reportJSON(w io.Writer, s compliance.Summary, _ bool) error { return terminal.WriteJSON(w, s) }

// reportCSV writes a line for each policy, namespace and severity or, with list, for each single result.
func reportCSV(w io.Writer, s compliance.Summary, list bool) error {
	rows := [][]string{{"policy", "namespace", "severity", "pass", "fail", "warn", "error", "skip"}}
	if list {
		rows = [][]string{{"policy", "rule", "result", "severity", "category", "source", "apiVersion", "kind", "namespace", "name", "message", "properties"}}
		for _, r := range s.Results {
			o := r.Resource
			rows = append(rows, []string{r.Policy, r.Rule, string(r.Result), r.Severity, r.Category, r.Source, o.APIVersion, o.Kind, o.Namespace, o.Name, r.Message, propertyText(r.Properties)})
		}
	} else {
		for _, c := range s.Cells {
			rows = append(rows, append([]string{c.Policy, c.Namespace, c.Severity}, countCells(c.Counts)...))
		}
	}
	out := csv.NewWriter(w)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = inert(cell)
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// inert returns a cell that a spreadsheet treats as text: it puts an apostrophe before a text that looks like a formula.
func inert(cell string) string {
	cell = terminal.Plain(cell)
	if t := strings.TrimLeft(cell, " "); t != "" && strings.ContainsRune("=+-@＝＋－＠|%", []rune(t)[0]) {
		return "'" + cell
	}
	return cell
}

package reports

import (
	"html"
	"io"
	"strings"

	"ephor.invalid/ephor/internal/cli/terminal"
	"ephor.invalid/ephor/internal/compliance"
)

// htmlPage is an HTML page that is being written. Texts of results appear only inside elements, and only through the method
// text, which escapes them. (html/template would be equally safe, but would make the program a third larger, since the linker
// then keeps every method.)
type htmlPage struct {
	w   io.Writer
	err error
}

// markup writes HTML from this package.
func (p *htmlPage) markup(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// text writes text from reports, escaped.
func (p *htmlPage) text(s string) { p.markup(html.EscapeString(terminal.Plain(s))) }

// element writes an element with a text.
func (p *htmlPage) element(tag, text string) {
	p.markup("<" + tag + ">")
	p.text(text)
	p.markup("</" + strings.Fields(tag)[0] + ">")
}

// htmlHead forbids the page to load or execute anything, as a second line of defence.
const htmlHead = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Policy reports</title>
<style>
body { font: 15px/1.4 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1c2733; }
table { border-collapse: collapse; margin: 0 0 2rem; width: 100%; }
th, td { border-bottom: 1px solid #d9dfe5; padding: .3rem .6rem; text-align: left; vertical-align: top; overflow-wrap: anywhere; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.fail, td.error { color: #b3261e; } td.warn { color: #8a5a00; }
</style>
</head>
<body>
`

// reportHTML writes one self-contained HTML file.
func reportHTML(w io.Writer, s compliance.Summary, _ bool) error {
	p := &htmlPage{w: w}
	p.markup(htmlHead)
	p.element("h1", "Policy reports")
	p.element("p", footer(s))
	titles := map[string]string{"POLICY": "By policy", "NAMESPACE": "By namespace", "SEVERITY": "By severity", "": "In all"}
	for _, section := range sections(s) {
		p.element("h2", titles[section.title])
		p.table(section.rows(), numberColumns)
	}
	if len(s.Results) > 0 {
		p.element("h2", "Results")
		p.table(htmlResults(s.Results), resultColumns)
	}
	p.markup("</body>\n</html>\n")
	return p.err
}

// htmlResults returns single results with their complete messages and properties.
func htmlResults(results []compliance.Result) [][]string {
	rows := resultRows(results)
	rows[0] = append(rows[0], "PROPERTIES")
	for i := range results {
		row := rows[i+1]
		row[len(row)-1] = results[i].Message
		rows[i+1] = append(row, propertyText(results[i].Properties))
	}
	return rows
}

// numberColumns returns the class of a cell in a table of counts: all columns but the first hold numbers.
func numberColumns(column int, _ string) string {
	if column > 0 {
		return "n"
	}
	return ""
}

// resultColumns returns the class of a cell in a table of results. It is always one of our own words, whatever the text of the cell.
func resultColumns(column int, cell string) string {
	if column == 0 && (cell == "fail" || cell == "error" || cell == "warn") {
		return cell
	}
	return ""
}

// table writes rows. The first one is the header.
func (p *htmlPage) table(rows [][]string, class func(column int, cell string) string) {
	p.markup("<table>\n")
	for i, row := range rows {
		tag := "td"
		if i == 0 {
			tag = "th"
		}
		p.markup("<tr>")
		for column, cell := range row {
			open := tag
			if c := class(column, cell); c != "" {
				open += ` class="` + c + `"`
			}
			p.element(open, cell)
		}
		p.markup("</tr>\n")
	}
	p.markup("</table>\n")
}

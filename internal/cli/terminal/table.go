package terminal

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Table draws a table as Kyverno does: with the box characters │ and ─ even at the corners, and cells that are
// left-aligned with one space around them and cut at 300 characters. Cells may have several lines.
type Table struct {
	Header      []string
	HeaderColor string // ANSI codes; empty for none
	rows        [][]tableCell
}

type tableCell struct {
	lines []string
	paint func(string) string
}

const cellLimit = 300

// Add adds a row and makes its cells legible. colors holds the ANSI codes of single cells; paint applies them, unless colours are off.
func (t *Table) Add(cells []string, colors map[int]string, paint func(s, color string) string) {
	row := make([]tableCell, len(cells))
	for i, c := range cells {
		row[i] = tableCell{lines: cellLines(Legible(c)), paint: func(s string) string { return s }}
		if color, ok := colors[i]; ok {
			row[i].paint = func(s string) string { return paint(s, color) }
		}
	}
	t.rows = append(t.rows, row)
}

func cellLines(s string) []string {
	if utf8.RuneCountInString(s) > cellLimit {
		s = string([]rune(s)[:cellLimit])
	}
	return strings.Split(strings.TrimRight(s, "\n"), "\n")
}

func (t *Table) Write(w io.Writer) {
	widths := make([]int, len(t.Header))
	for i, h := range t.Header {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			for _, l := range c.lines {
				widths[i] = max(widths[i], utf8.RuneCountInString(l))
			}
		}
	}
	var b strings.Builder
	rule := func() {
		b.WriteString("│")
		for _, n := range widths {
			b.WriteString(strings.Repeat("─", n+2) + "│")
		}
		b.WriteByte('\n')
	}
	rule()
	b.WriteString("│")
	for i, h := range t.Header {
		h = pad(h, widths[i])
		if t.HeaderColor != "" {
			h = "\x1b[" + t.HeaderColor + "m" + h + "\x1b[0m"
		}
		b.WriteString(" " + h + " │")
	}
	b.WriteByte('\n')
	rule()
	for _, row := range t.rows {
		height := 1
		for _, c := range row {
			height = max(height, len(c.lines))
		}
		for l := range height {
			b.WriteString("│")
			for i, c := range row {
				text := ""
				if l < len(c.lines) {
					text = c.lines[l]
				}
				b.WriteString(" " + c.paint(pad(text, widths[i])) + " │")
			}
			b.WriteByte('\n')
		}
	}
	rule()
	io.WriteString(w, b.String())
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

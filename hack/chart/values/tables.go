package values

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// The lines around the tables in the document.
const (
	begin = "<!-- values: begin (made by hack/generate.sh) -->\n"
	end   = "<!-- values: end -->\n"
)

// WriteTables replaces the tables of values in the document.
func (v *Value) WriteTables(path string) error { return write(path, v.tables()) }

// WriteTable replaces the tables by one table of all values.
func (v *Value) WriteTable(path string) error {
	var out bytes.Buffer
	out.WriteString("\n| Value | Default | |\n|---|---|---|\n")
	v.Walk(func(c *Value) {
		if c.Type != "object" {
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", c.Path, defaultText(c), cell(c.Description))
		}
	})
	out.WriteString("\n")
	return write(path, out.String())
}

// write replaces what the document has between its markers.
func write(path, tables string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+tables+end+after), 0o644)
}

// tables returns one table for each value at the top level, and one list of values without effect.
func (v *Value) tables() string {
	var out bytes.Buffer
	var ignored []*Value
	row := func(c *Value) {
		if c.Ignored {
			ignored = append(ignored, c)
			return
		}
		if c.Type == "object" {
			return
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s |\n", c.Path, defaultText(c), cell(c.Description))
	}
	out.WriteString("\n### Names, image\n\n| Value | Default | |\n|---|---|---|\n")
	for _, c := range v.Children {
		if c.Type != "object" || c.Name == "image" {
			row(c)
			c.Walk(row)
		}
	}
	for _, c := range v.Children {
		if c.Type == "object" && c.Name != "image" {
			fmt.Fprintf(&out, "\n### %s\n\n%s\n\n| Value | Default | |\n|---|---|---|\n", c.Name, c.Description)
			c.Walk(row)
		}
	}
	out.WriteString("\n### Accepted without effect\n\nValues of Kyverno's chart that change nothing here; where there is a reason to give, it is given.\n\n| Value | |\n|---|---|\n")
	// Values without a reason share a row with their neighbours below the same parent.
	for i := 0; i < len(ignored); i++ {
		names := "`" + ignored[i].Path + "`"
		for ; i+1 < len(ignored) && ignored[i].Description == "" && ignored[i+1].Description == "" && parent(ignored[i]) == parent(ignored[i+1]); i++ {
			names += ", `" + ignored[i+1].Name + "`"
		}
		fmt.Fprintf(&out, "| %s | %s |\n", names, cell(ignored[i].Description))
	}
	out.WriteString("\n")
	return out.String()
}

func defaultText(v *Value) string {
	if v.Name == "resourceFilters" {
		return "the [list](#objects-that-are-never-evaluated) above"
	}
	text, err := json.Marshal(v.Default)
	if err != nil || v.Default == nil {
		return ""
	}
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if e.Encode(v.Default) == nil {
		text = bytes.TrimSpace(plain.Bytes())
	}
	return "`" + cell(string(text)) + "`"
}

func parent(v *Value) string { return strings.TrimSuffix(v.Path, v.Name) }

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

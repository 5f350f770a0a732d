package testrun

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v2"

	"ephor.invalid/ephor/internal/cli/terminal"
)

// testPrinter prints the rows of tests in one of the formats.
type testPrinter struct {
	format   string // "" for the table
	detailed bool
	noColor  bool
	terminal bool
}

// print prints the rows of one or several tests. IDs begin at 1.
func (p testPrinter) print(w io.Writer, rows []testRow) error {
	switch p.format {
	case "json":
		return p.json(w, rows)
	case "yaml":
		return p.yaml(w, rows)
	case "markdown":
		p.markdown(w, rows)
	case "junit":
		return p.junit(w, rows)
	default:
		p.table(w, rows)
	}
	return nil
}

var rowColors = map[string]string{rowPass: "32", rowFail: "31", rowSkip: "33"}

// colored reports whether the output has colours: only a terminal shows them.
func (p testPrinter) colored() bool { return p.terminal && !p.noColor }

func (p testPrinter) paint(s, color string) string {
	if !p.colored() {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

func (p testPrinter) table(w io.Writer, rows []testRow) {
	t := terminal.Table{Header: p.header()}
	if p.colored() {
		t.HeaderColor = "40;32"
	}
	if len(rows) > 10 {
		t.Header[0] = "ID (" + strconv.Itoa(len(rows)) + ") "
	}
	for i := range rows {
		t.Add(p.cells(i, &rows[i]), map[int]string{4: rowColors[rows[i].Result]}, p.paint)
	}
	t.Write(w)
}

func (p testPrinter) header() []string {
	h := []string{"ID", "POLICY", "RULE", "RESOURCE", "RESULT", "REASON"}
	if p.detailed {
		h = append(h, "MESSAGE")
	}
	return h
}

func (p testPrinter) cells(i int, r *testRow) []string {
	c := []string{strconv.Itoa(i + 1), r.Policy, r.Rule, r.Resource, r.Result, r.Reason}
	if p.detailed {
		c = append(c, r.Message)
	}
	return c
}

// record is a row in JSON and YAML output, with Kyverno's keys.
type record struct {
	ID       int    `json:"ID" yaml:"ID"`
	Policy   string `json:"POLICY" yaml:"POLICY"`
	Reason   string `json:"REASON" yaml:"REASON"`
	Resource string `json:"RESOURCE" yaml:"RESOURCE"`
	Result   string `json:"RESULT" yaml:"RESULT"`
	Rule     string `json:"RULE" yaml:"RULE"`
	Message  string `json:"Message,omitempty" yaml:"Message,omitempty"`
}

func (p testPrinter) records(rows []testRow) []record {
	out := make([]record, len(rows))
	for i, r := range rows {
		out[i] = record{i + 1, r.Policy, r.Reason, r.Resource, r.Result, r.Rule, ""}
		if p.detailed {
			out[i].Message = r.Message
		}
	}
	return out
}

func (p testPrinter) json(w io.Writer, rows []testRow) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(p.records(rows))
}

func (p testPrinter) yaml(w io.Writer, rows []testRow) error {
	b, err := yaml.Marshal(p.records(rows))
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

func (p testPrinter) markdown(w io.Writer, rows []testRow) {
	header := p.header()
	fmt.Fprintf(w, "| %s | \n|%s\n", strings.Join(header, " | "), strings.Repeat("----|", len(header)))
	for i := range rows {
		cells := p.cells(i, &rows[i])
		for k, c := range cells {
			cells[k] = strings.ReplaceAll(strings.ReplaceAll(c, "|", `\|`), "\n", "<br>")
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

// The parts of a JUnit report.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Classname string        `xml:"classname,attr"`
		Name      string        `xml:"name,attr"`
		Failure   *junitFailure `xml:"failure"`
		Output    *junitText    `xml:"system-out"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",cdata"`
	}
	junitText struct {
		Text string `xml:",cdata"`
	}
)

// xmlText replaces what XML 1.0 does not allow in a document, in no form.
func xmlText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF {
			return utf8.RuneError
		}
		return r
	}, s)
}

// junit writes one suite for each policy, in the order of the rows.
func (p testPrinter) junit(w io.Writer, rows []testRow) error {
	var all junitSuites
	index := map[string]int{}
	for i := range rows {
		r := &rows[i]
		at, known := index[r.Policy]
		if !known {
			at = len(all.Suites)
			index[r.Policy] = at
			all.Suites = append(all.Suites, junitSuite{Name: r.Policy})
		}
		s := &all.Suites[at]
		c := junitCase{Classname: r.Rule, Name: r.Resource}
		if r.Result == rowFail {
			c.Failure = &junitFailure{Message: r.Reason}
			if p.detailed {
				c.Failure.Text = xmlText(r.Message)
			}
			s.Failures++
			all.Failures++
		} else {
			text := r.Reason
			if p.detailed && r.Message != "" {
				text += ": " + r.Message
			}
			c.Output = &junitText{xmlText(text)}
		}
		s.Tests++
		all.Tests++
		s.Cases = append(s.Cases, c)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

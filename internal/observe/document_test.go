package observe

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of docs/operating/metrics.md")

// TestDocument compares the end of docs/operating/metrics.md with the declarations: it lists every metric with its labels.
func TestDocument(t *testing.T) {
	const file = "../../docs/operating/metrics.md"
	const mark = "-run TestDocument -update`. -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, got, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no line that ends in %q", file, mark)
	}
	want := document()
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: run go test ./internal/observe -run TestDocument -update", file)
	}
	if err := os.WriteFile(file, []byte(before+mark+want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// document returns the table of all metrics, and a query for each that has one.
func document() string {
	var b strings.Builder
	b.WriteString("\n| Metric | Type | Labels | |\n|---|---|---|---|\n")
	for _, i := range Declared() {
		var labels []string
		for _, l := range i.Labels {
			name, open := cutMark(l)
			if open {
				labels = append(labels, "*"+name+"*")
			} else {
				labels = append(labels, name)
			}
		}
		name := "`" + i.Exposed() + "`"
		if i.Bare {
			name += ", `" + i.Name + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, i.Kind, strings.Join(labels, ", "), i.Help)
	}
	b.WriteString("\nThe Go runtime and the process show `go_*` and `process_*`, the page itself `promhttp_*`.\n")
	b.WriteString("\nQueries for single metrics:\n\n```promql\n")
	for n, i := 0, Declared(); n < len(i); n++ {
		if i[n].Query != "" {
			fmt.Fprintf(&b, "%s\n\n", i[n].Query)
		}
	}
	return strings.TrimSuffix(b.String(), "\n") + "```\n"
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The files, below the root of the repository.
const (
	resultsFile = "hack/matrix/results.tsv"
	page        = "docs/operating/versions.md"
)

// The outcomes.
const (
	success = "passed"
	failure = "failed"
	absent  = "does not apply"
	never   = "not run"
)

// columns are the versions of the table.
var columns = []string{"1.30", "1.31", "1.33", "1.35", "1.36", "1.37"}

// result is what a row last gave for a version.
type result struct {
	version, row, outcome, day string
	took                       time.Duration
}

type results []result

func (r *results) put(new result) {
	*r = append(slices.DeleteFunc(*r, func(old result) bool { return old.version == new.version && old.row == new.row }), new)
}

func (r results) of(version, row string) result {
	if i := slices.IndexFunc(r, func(x result) bool { return x.version == version && x.row == row }); i >= 0 {
		return r[i]
	}
	return result{outcome: never}
}

func read(file string) (out results, err error) {
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, "\t")
		if len(parts) != 5 {
			return nil, fmt.Errorf("%s: %q has %d columns, not 5", file, line, len(parts))
		}
		took, err := time.ParseDuration(parts[3])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		out = append(out, result{version: parts[0], row: parts[1], outcome: parts[2], took: took, day: parts[4]})
	}
	return out, nil
}

func (r results) write(file string) error {
	slices.SortFunc(r, func(a, b result) int { return strings.Compare(a.version+"\t"+a.row, b.version+"\t"+b.row) })
	out := bytes.NewBufferString("# Written by hack/matrix: version of Kubernetes, row, outcome, duration, day.\n")
	for _, x := range r {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", x.version, x.row, x.outcome, x.took, x.day)
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}

// The comments between which the table stands in the page.
const begin, end = "<!-- hack/matrix writes this table -->\n", "<!-- the end of the table -->\n"

// table returns the table.
func (r results) table() string {
	var out strings.Builder
	fmt.Fprintf(&out, "| | %s |\n|---%s|\n", strings.Join(columns, " | "), strings.Repeat("|---", len(columns)))
	for _, row := range append(slices.Clone(rows), upgrade) {
		fmt.Fprintf(&out, "| %s |", row.text)
		for _, v := range columns {
			outcome := r.of(v, row.name).outcome
			if row.name == upgrade.name && v != columns[len(columns)-1] {
				outcome = absent
			}
			fmt.Fprintf(&out, " %s |", outcome)
		}
		out.WriteString("\n")
	}
	return out.String()
}

// writeTable writes the table into the page.
func writeTable(file string, r results) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the table", file)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+r.table()+"\n"+end+after), 0o644)
}

package main

import (
	"os"
	"strings"
	"testing"
)

// The page has the table of the results.
func TestTable(t *testing.T) {
	r, err := read("results.tsv")
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), begin+"\n"+r.table()+"\n"+end) {
		t.Errorf("%s is out of date: go run ./hack/matrix -table", page)
	}
}

// The sample has 36 tests of classic policies and 24 of policies in CEL. Old versions run those that need no newer kinds, and their outcome says
// how many.
func TestSample(t *testing.T) {
	for _, c := range []struct {
		part, version string
		want          int
		outcome       string
	}{
		{"Classic", "1.30", 36, ""},
		{"CEL", "1.36", 24, ""},
		{"CEL", "1.35", 24, ""},
		{"CEL", "1.33", 23, ", 23 of 24"},
		{"CEL", "1.31", 22, ", 22 of 24"},
	} {
		command := sampled(c.part)(c.version)
		got := len(strings.Fields(strings.TrimPrefix(command.args[len(command.args)-1], "-dirs=")))
		if got != c.want || command.part != c.outcome {
			t.Errorf("%s, %s: %d tests%s, want %d%s", c.part, c.version, got, command.part, c.want, c.outcome)
		}
	}
}

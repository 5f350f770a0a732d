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

// The sample has 36 tests of classic policies and 24 of policies in CEL.
func TestSample(t *testing.T) {
	for cel, want := range map[bool]int{false: 36, true: 24} {
		command := sampled(cel)
		if got := len(strings.Fields(strings.TrimPrefix(command[len(command)-1], "-dirs="))); got != want {
			t.Errorf("%d tests, want %d", got, want)
		}
	}
}

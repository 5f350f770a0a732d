package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page of the comparison and the README have the figures of the list.
func TestFiguresAgree(t *testing.T) {
	all, err := readFigures("..")
	if err != nil {
		t.Fatal(err)
	}
	for file, table := range map[string]string{comparisonPage: pageTable(all), readme: readmeTable(all)} {
		content, err := os.ReadFile(filepath.Join("..", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(content), figuresBegin+"\n"+table+"\n"+tableEnd) {
			t.Errorf("%s is out of date: go run ./bench figures", file)
		}
	}
	rows, err := readEvaluators("..")
	if err != nil {
		t.Fatal(err)
	}
	table := evaluatorTable(rows)
	if page, err := os.ReadFile(filepath.Join("..", comparisonPage)); err != nil || !strings.Contains(string(page), evaluatorsBegin+"\n"+table+"\n"+tableEnd) {
		t.Errorf("%s is out of date: make bench-compare (%v)", comparisonPage, err)
	}
	// A figure of the README is a part of those of the page, except that of a review, which it gives in milliseconds.
	for _, f := range all {
		for _, short := range []string{f.shortOwn, f.shortPeer} {
			for _, number := range strings.FieldsFunc(short, func(r rune) bool { return (r < '0' || r > '9') && r != '.' }) {
				if f.key != "review" && !strings.Contains(f.own+f.peer+table, number) {
					t.Errorf("%s: the README has %s, the page %q and %q", f.key, number, f.own, f.peer)
				}
			}
		}
	}
}

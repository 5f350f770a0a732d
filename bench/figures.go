package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The files of the figures: the page of the comparison and the README get theirs from one list.
const (
	figureFile     = "bench/figures.tsv"
	comparisonPage = "docs/migrating/comparison.md"
	readme         = "README.md"
)

// The comments between which the tables stand.
const figuresBegin, figuresEnd = "<!-- go run ./bench figures writes this table -->\n", "<!-- the end of the table -->\n"

// figure is a row of the comparison.
type figure struct {
	key              string // of the measurement that writes ours
	work             string
	peer, own, floor string
	// short is the work in the README, with both figures there; empty for a row that only the page has.
	short, shortPeer, shortOwn string
}

// figure stores one of our figures for a row, with the day.
func (b *bench) figure(key, text string) {
	if b.figures == nil {
		b.figures = map[string]string{}
	}
	b.figures[key] = text + " (" + time.Now().UTC().Format(time.DateOnly) + ")"
}

func readFigures(root string) (out []figure, err error) {
	content, err := os.ReadFile(filepath.Join(root, figureFile))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c := strings.Split(line, "\t")
		if len(c) != 8 {
			return nil, fmt.Errorf("%s: %q has %d columns, not 8", figureFile, c[0], len(c))
		}
		out = append(out, figure{c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]})
	}
	return out, nil
}

// writeFigures stores what was measured, and writes both tables.
func (b *bench) writeFigures() error {
	all, err := readFigures(b.root)
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("# key, work, peer, Ephor, floor, in the README: work, peer, Ephor. bench writes the column Ephor of what it measures.\n")
	for i := range all {
		f := &all[i]
		if got, measured := b.figures[f.key]; measured {
			f.own = got
		}
		text.WriteString(strings.Join([]string{f.key, f.work, f.peer, f.own, f.floor, f.short, f.shortPeer, f.shortOwn}, "\t") + "\n")
	}
	for key := range b.figures {
		if !slices.ContainsFunc(all, func(f figure) bool { return f.key == key }) {
			return fmt.Errorf("%s has no row %q", figureFile, key)
		}
	}
	return errors.Join(
		os.WriteFile(filepath.Join(b.root, figureFile), []byte(text.String()), 0o644),
		replaceTable(filepath.Join(b.root, comparisonPage), pageTable(all)),
		replaceTable(filepath.Join(b.root, readme), readmeTable(all)),
	)
}

func pageTable(all []figure) string {
	out := "| Work | Kyverno 1.19.1 | Ephor | Floor |\n|---|---|---|---|\n"
	for _, f := range all {
		out += fmt.Sprintf("| %s | %s | %s | %s |\n", f.work, f.peer, f.own, f.floor)
	}
	return out
}

func readmeTable(all []figure) string {
	out := "| | Ephor | Kyverno 1.19 |\n|---|---|---|\n"
	for _, f := range all {
		if f.short != "" {
			out += fmt.Sprintf("| %s | %s | %s |\n", f.short, f.shortOwn, f.shortPeer)
		}
	}
	return out
}

// replaceTable writes a table between the comments of a file.
func replaceTable(file, table string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(content), figuresBegin)
	_, after, closed := strings.Cut(rest, figuresEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the figures", file)
	}
	return os.WriteFile(file, []byte(before+figuresBegin+"\n"+table+"\n"+figuresEnd+after), 0o644)
}

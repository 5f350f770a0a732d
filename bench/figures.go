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
	evaluatorFile  = "bench/evaluators.tsv"
	comparisonPage = "docs/migrating/comparison.md"
	readme         = "README.md"
)

// The comments between which the tables stand.
const (
	figuresBegin    = "<!-- go run ./bench figures writes this table -->\n"
	evaluatorsBegin = "<!-- make bench-compare writes this table -->\n"
	tableEnd        = "<!-- the end of the table -->\n"
)

// figure is a row of the comparison.
type figure struct {
	key              string // of the measurement that writes ours
	work             string // empty for a row that only the README has, whose figures are in the table of evaluators
	peer, own, floor string
	// short is the work in the README, with both figures there; empty for a row that only the page has.
	short, shortPeer, shortOwn string
}

// figure stores one of our figures for a row, with the day; peerFigure one of peers.
func (b *bench) figure(key, text string)     { storeFigure(&b.figures, key, text) }
func (b *bench) peerFigure(key, text string) { storeFigure(&b.peerFigures, key, text) }

func storeFigure(in *map[string]string, key, text string) {
	if *in == nil {
		*in = map[string]string{}
	}
	(*in)[key] = text + " (" + today() + ")"
}

// shortFigure stores the figures of a row in the README.
func (b *bench) shortFigure(key, peer, own string) {
	if b.shortFigures == nil {
		b.shortFigures = map[string][2]string{}
	}
	b.shortFigures[key] = [2]string{peer, own}
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }

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
	text.WriteString("# key, work, peers, Ephor, floor, in the README: work, peer, Ephor. bench writes the columns of what it measures.\n")
	for i := range all {
		f := &all[i]
		if got, measured := b.figures[f.key]; measured {
			f.own = got
		}
		if got, measured := b.peerFigures[f.key]; measured {
			f.peer = got
		}
		if got, measured := b.shortFigures[f.key]; measured {
			f.shortPeer, f.shortOwn = got[0], got[1]
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
		replaceTable(filepath.Join(b.root, comparisonPage), figuresBegin, pageTable(all)),
		replaceTable(filepath.Join(b.root, readme), figuresBegin, readmeTable(all)),
	)
}

func pageTable(all []figure) string {
	out := "| Work | Peers | Ephor | Floor |\n|---|---|---|---|\n"
	for _, f := range all {
		if f.work != "" {
			out += fmt.Sprintf("| %s | %s | %s | %s |\n", f.work, f.peer, f.own, f.floor)
		}
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

// replaceTable writes a table between the comment begin and the next tableEnd of a file.
func replaceTable(file, begin, table string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, tableEnd)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for the figures", file)
	}
	return os.WriteFile(file, []byte(before+begin+"\n"+table+"\n"+tableEnd+after), 0o644)
}

// writeEvaluators stores the rows of the evaluators that were measured, and writes the table of all. The README gets the reviews and the memory of the classic
// policies from there.
func (b *bench) writeEvaluators(got map[string]evaluation) error {
	rows, err := readEvaluators(b.root)
	if err != nil {
		return err
	}
	for _, e := range evaluators {
		if g, measured := got[e.name]; measured {
			rows = slices.DeleteFunc(rows, func(row []string) bool { return row[0] == e.name })
			rows = append(rows, g.cells(e.name, today()))
		}
	}
	at := func(row []string) int {
		return slices.IndexFunc(evaluators, func(e evaluator) bool { return e.name == row[0] })
	}
	slices.SortFunc(rows, func(a, b []string) int { return at(a) - at(b) })
	text := "# " + strings.Join(columns, "\t") + "\n"
	for _, row := range rows {
		text += strings.Join(row, "\t") + "\n"
	}
	if own, peer := got[ephorClassic], got[kyvernoClassic]; peer.good > 0 {
		b.shortFigure("review", fmt.Sprintf("%.2f ms", ms(peer.good)), fmt.Sprintf("%.2f ms", ms(own.good)))
		b.shortFigure("rest", fmt.Sprintf("%.0f MB", peer.atRest), fmt.Sprintf("%.0f MB", own.atRest))
	}
	return errors.Join(os.WriteFile(filepath.Join(b.root, evaluatorFile), []byte(text), 0o644),
		replaceTable(filepath.Join(b.root, comparisonPage), evaluatorsBegin, evaluatorTable(rows)))
}

// readEvaluators returns the stored rows.
func readEvaluators(root string) (rows [][]string, err error) {
	content, err := os.ReadFile(filepath.Join(root, evaluatorFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(line, "\t")
		if len(row) != len(columns) {
			return nil, fmt.Errorf("%s: %q has %d columns, not %d", evaluatorFile, row[0], len(row), len(columns))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func evaluatorTable(rows [][]string) string {
	out := "| " + strings.Join(columns, " | ") + " |\n" + strings.Repeat("|---", len(columns)) + "|\n"
	for _, row := range rows {
		out += "| " + strings.Join(row, " | ") + " |\n"
	}
	return out
}

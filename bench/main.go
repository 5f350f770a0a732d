package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ephor.invalid/ephor/bench/load"
	"ephor.invalid/ephor/internal/devcluster"
)

// bench holds the state that all measurements share.
type bench struct {
	root  string // root of the repository
	ephor string // the binary
	dir   string // temporary files
	rows  []row
	// figures and peerFigures are those of the comparison that were measured, by their key; shortFigures are those of the README: a peer's and ours.
	figures, peerFigures map[string]string
	shortFigures         map[string][2]string
	peers                map[string]string // programs, by their base names
	noop                 *load.Server
}

// object is a JSON object.
type object = map[string]any

// row is one figure with its target.
type row struct {
	name, unit    string
	value, target float64
}

func (b *bench) row(name, unit string, value, target float64) {
	b.rows = append(b.rows, row{name, unit, value, target})
}

func (b *bench) print() {
	width := 24
	for _, r := range b.rows {
		width = max(width, len(r.name))
	}
	fmt.Printf("\n%-*s %12s %12s\n", width, "row", "value", "target")
	for _, r := range b.rows {
		verdict := "ok"
		if r.value > r.target {
			verdict = "MISS"
		}
		fmt.Printf("%-*s %12s %12s  %s\n", width, r.name, amount(r.value, r.unit), amount(r.target, r.unit), verdict)
	}
}

func amount(v float64, unit string) string {
	switch unit {
	case "MB", "ms":
		return fmt.Sprintf("%.0f %s", v, unit)
	case "":
		return strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64)
	}
	return fmt.Sprintf("%.2f %s", v, unit)
}

// measurements in the order of the table. Each adds its rows.
var measurements = []struct {
	name string
	run  func(*bench) error
}{
	{"floor", (*bench).floor},
	{"cel", (*bench).celFloor},
	{"policies", (*bench).policies},
	{"cel-policies", (*bench).celPolicySets},
	{"cli", (*bench).commandLine},
	{"library", (*bench).library},
	{"suites", (*bench).suites},
	{"foreach", (*bench).foreach},
	{"images", (*bench).images},
	{"recording", (*bench).recording},
	{"exceptions", (*bench).exceptions},
	{"rest", (*bench).rest},
}

func main() {
	if err := benchmarks(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func benchmarks(args []string) error {
	root, err := devcluster.Root()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ephor-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{root: root, ephor: filepath.Join(root, "bin", "ephor"), dir: dir}
	if len(args) == 1 && args[0] == "figures" {
		return b.writeFigures()
	}
	if len(args) > 0 && args[0] == "charges" {
		return b.charges(strings.Join(args[1:], " "))
	}
	if _, err := os.Stat(b.ephor); err != nil {
		return fmt.Errorf("%w: run `make build` first", err)
	}
	if len(args) == 2 && args[0] == serveCommand {
		return serveStatic(args[1])
	}
	if len(args) == 2 && args[0] == serveRegistryCommand {
		return serveRegistry(args[1])
	}
	if len(args) > 0 && args[0] == "compare" {
		return b.compare(args[1:])
	}
	if len(args) == 1 && args[0] == "reports" {
		return b.reports()
	}
	if len(args) == 1 && args[0] == "background" {
		return b.background()
	}
	if len(args) == 1 && args[0] == "decisions" {
		return b.decisions()
	}
	known := false
	for _, m := range measurements {
		if len(args) > 0 && args[0] != m.name {
			continue
		}
		known = true
		if err := m.run(b); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	if !known {
		return fmt.Errorf("there is no measurement %q; there are floor, cel, policies, cel-policies, cli, library, suites, foreach, images, recording, exceptions, rest, charges, reports, background, decisions, compare", strings.Join(args, " "))
	}
	if len(args) > 0 {
		return nil // a single measurement prints its own last line
	}
	b.print()
	return nil
}

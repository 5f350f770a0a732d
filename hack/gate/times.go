package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// timesFile lists the times of a run on two quiet cores: seconds, a tab, and the name of a part, of a package with a control plane, or of one
// of the slowest tests. `go run ./hack/gate -write` writes it.
const timesFile = "hack/gate/times.tsv"

const (
	partPrefix = "part: "
	slowest    = 20
)

// readTimes returns the seconds of the list by name.
func readTimes() (map[string]float64, error) {
	text, err := os.ReadFile(filepath.FromSlash(timesFile))
	if err != nil {
		return nil, err
	}
	known := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		seconds, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		s, err := strconv.ParseFloat(seconds, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("%s: %q is no line of seconds, a tab, and a name", timesFile, line)
		}
		known[name] = s
	}
	return known, nil
}

// rows returns the measurements that are printed and kept: all parts, the packages with a control plane, and the slowest tests.
func rows(times []measured) (parts, packages, tests []measured) {
	for _, m := range times {
		switch {
		case strings.HasPrefix(m.name, partPrefix):
			parts = append(parts, m)
		case strings.Contains(m.name, " "):
			tests = append(tests, m)
		case strings.HasPrefix(m.name, "./e2e"):
			packages = append(packages, m)
		}
	}
	for _, list := range [][]measured{packages, tests} {
		slices.SortStableFunc(list, func(a, b measured) int { return cmp.Compare(b.took, a.took) })
	}
	return parts, packages, tests[:min(len(tests), slowest)]
}

// slowness returns the factor by which the run was slower than that of the list: the median over the rows that both have, at least 1. Without it
// a slow or busy machine would name every row. With few rows it is 1, since their growth may be real.
func slowness(times []measured, known map[string]float64) float64 {
	const fewest, shortest = 10, 5 // rows, seconds
	var ratios []float64
	for _, m := range times {
		if before := known[m.name]; before >= shortest {
			ratios = append(ratios, m.took.Seconds()/before)
		}
	}
	if len(ratios) < fewest {
		return 1
	}
	slices.Sort(ratios)
	return max(1, ratios[len(ratios)/2])
}

// compare returns the lines about times: parts, packages, the slowest tests, and what grew by half against the list.
func compare(times []measured, known map[string]float64) (out []string) {
	parts, packages, tests := rows(times)
	for _, list := range []struct {
		title string
		rows  []measured
	}{{"the parts", parts}, {"the packages with a control plane", packages}, {"the slowest tests", tests}} {
		if len(list.rows) > 0 {
			out = append(out, "== "+list.title)
		}
		for _, m := range list.rows {
			out = append(out, m.String())
		}
	}
	slower := slowness(times, known)
	if slower > 1 {
		out = append(out, fmt.Sprintf("this run took %.1f x the times in %s (median); only what grew by half beside that is named", slower, timesFile))
	}
	for _, m := range times {
		// Less than two seconds are noise.
		if before, ok := known[m.name]; ok && m.took.Seconds() > slower*max(before*1.5, before+2) {
			out = append(out, fmt.Sprintf("GREW BY HALF: %s took %.1f s, and %.1f s in %s", m.name, m.took.Seconds(), before, timesFile))
		}
	}
	for _, m := range tests {
		if _, ok := known[m.name]; !ok {
			out = append(out, fmt.Sprintf("NEW AMONG THE SLOWEST: %s took %.1f s", m.name, m.took.Seconds()))
		}
	}
	return out
}

// writeTimes writes the list.
func writeTimes(times []measured) error {
	parts, packages, tests := rows(times)
	var b strings.Builder
	for _, m := range slices.Concat(parts, packages, tests) {
		fmt.Fprintf(&b, "%.1f\t%s\n", m.took.Round(100*time.Millisecond).Seconds(), m.name)
	}
	return os.WriteFile(filepath.FromSlash(timesFile), []byte(b.String()), 0o644)
}

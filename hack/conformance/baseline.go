package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// passed is the baseline's result for a test that Kyverno passes in this suite's environment.
const passed = "passed"

// test is one folder with a chainsaw-test.yaml.
type test struct {
	path     string // below the suite, with slashes
	part     string // the part of the work to which the baseline assigns it
	expected bool   // Kyverno passes it here, and its part is built
	exempt   string // why it is not expected although it otherwise would be; it runs nevertheless
	network  bool   // the baseline lists it as failed for want of a network, which partOfImages has
	flags    string // flags for the controllers, from more.tsv

	result  string
	seconds float64
	reason  string
	alone   bool // passed only in the repetition
}

// selection defines which tests to run.
type selection struct {
	parts []string // values of the third column in the baseline
	dirs  []string // path prefixes; none for all
	extra bool     // also those that are not expected

	network map[string]bool   // rows that pass if registries are answered
	more    map[string]string // rows that pass although the baseline lists them as failed, with their flags
	exempt  map[string]string // why a row of the baseline does not count
}

// exemptions are the rows that do not count, with the reason. They are data beside the code, so that they are visible.
//
//go:embed exempt.tsv
var exemptions string

// networkRows are the rows that the baseline lists as failed for want of a network, and that must pass with the part Images.
//
//go:embed network.txt
var networkRows string

// moreRows are the rows that the baseline lists as failed for other reasons, and that must pass with their part.
//
//go:embed more.tsv
var moreRows string

// readMore parses rows of a path and flags, each of which names its component.
func readMore(table string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path, flags, _ := strings.Cut(line, "\t")
		for flag := range strings.FieldsSeq(flags) {
			if component, of, ok := strings.Cut(flag, ":"); !ok || component == "" || !strings.HasPrefix(of, "--") {
				return nil, fmt.Errorf("more.tsv: %q is no component with a flag", flag)
			}
		}
		out[path] = flags
	}
	return out, nil
}

// flagsOf returns the flags of a component.
func flagsOf(flags, component string) (out []string) {
	for flag := range strings.FieldsSeq(flags) {
		if of, ok := strings.CutPrefix(flag, component+":"); ok {
			out = append(out, of)
		}
	}
	return out
}

// readNetwork parses a list with a path on each line.
func readNetwork(list string) map[string]bool {
	out := map[string]bool{}
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out[line] = true
		}
	}
	return out
}

// readExemptions parses rows of a path and a reason, which must not be empty.
func readExemptions(table string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path, reason, _ := strings.Cut(line, "\t")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("exempt.tsv: %q gives no reason", line)
		}
		out[path] = reason
	}
	return out, nil
}

// readTests reads the baseline beside the suite: path, result of Kyverno, part. Rows of missing folders are an error, since a test
// that silently does not run would not be noticed.
func readTests(data string, s selection) ([]*test, error) {
	baseline := filepath.Join(data, "chainsaw-baseline.tsv")
	f, err := os.Open(baseline)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []*test
	seen, unused, needed, more := map[string]bool{}, maps.Clone(s.exempt), maps.Clone(s.network), maps.Clone(s.more)
	for scan := bufio.NewScanner(f); scan.Scan(); {
		line := scan.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s: %q has no three columns", baseline, line)
		}
		seen[fields[0]] = true
		t := &test{path: fields[0], part: fields[2], expected: fields[1] == passed && slices.Contains(s.parts, fields[2])}
		if s.network[t.path] {
			delete(needed, t.path)
			if fields[1] == passed {
				return nil, fmt.Errorf("network.txt names %s, which passes without a network", t.path)
			}
			t.network, t.expected = true, slices.Contains(s.parts, partOfImages)
		}
		if flags, ok := s.more[t.path]; ok {
			delete(more, t.path)
			if fields[1] == passed || t.network {
				return nil, fmt.Errorf("more.tsv names %s, which is expected anyway", t.path)
			}
			t.flags, t.expected = flags, slices.Contains(s.parts, t.part)
		}
		if reason, ok := s.exempt[t.path]; ok && fields[1] == passed {
			delete(unused, t.path)
			if t.expected {
				t.expected, t.exempt = false, reason
			}
		}
		if !under(t.path, s.dirs) || !t.expected && t.exempt == "" && !s.extra {
			continue
		}
		if _, err := os.Stat(filepath.Join(data, "chainsaw", t.path, testFile)); err != nil {
			return nil, fmt.Errorf("%s names a test that is not there: %w", baseline, err)
		}
		out = append(out, t)
	}
	for path := range needed {
		return nil, fmt.Errorf("network.txt names %s, which %s does not list", path, baseline)
	}
	for path := range more {
		return nil, fmt.Errorf("more.tsv names %s, which %s does not list", path, baseline)
	}
	for path := range unused {
		return nil, fmt.Errorf("exempt.tsv names %s, which %s does not list as passed", path, baseline)
	}
	if !s.extra {
		return out, nil
	}
	// Tests that the baseline does not list also run if all tests are selected.
	suite := filepath.Join(data, "chainsaw")
	return out, filepath.WalkDir(suite, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != testFile {
			return err
		}
		rel, err := filepath.Rel(suite, filepath.Dir(path))
		if rel = filepath.ToSlash(rel); err == nil && !seen[rel] && under(rel, s.dirs) {
			out = append(out, &test{path: rel})
		}
		return err
	})
}

// testFile is the file that makes a folder a test.
const testFile = "chainsaw-test.yaml"

// under reports whether path is one of dirs or below one of them.
func under(path string, dirs []string) bool {
	if len(dirs) == 0 {
		return true
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		dir = strings.Trim(dir, "/")
		return path == dir || strings.HasPrefix(path, dir+"/")
	})
}

// tally holds the numbers in the last line of the output.
type tally struct{ expected, passed, failed, extra, alone int }

func count(tests []*test) tally {
	var n tally
	for _, t := range tests {
		switch {
		case t.expected && t.result == passed:
			n.passed++
		case t.expected:
			n.failed++
		case t.result == passed && t.exempt == "":
			n.extra++
		}
		if t.expected {
			n.expected++
		}
		if t.alone {
			n.alone++
		}
	}
	return n
}

func (n tally) String() string {
	return fmt.Sprintf("conformance: %d of %d expected passed, %d failed, %d extra", n.passed, n.expected, n.failed, n.extra)
}

// tooManyAlone reports whether more than 2 % of the expected tests passed only when run alone.
func (n tally) tooManyAlone() bool { return n.alone*50 > n.expected && n.alone > 1 }

// exemptResults lists the results of the exempt tests, one line each.
func exemptResults(tests []*test) string {
	var b strings.Builder
	for _, t := range tests {
		if t.exempt != "" {
			fmt.Fprintf(&b, "exempt: %s (%s): %s\n", t.path, t.result, t.exempt)
		}
	}
	return b.String()
}

// writeList writes one row per test that ran.
func writeList(path string, tests []*test) error {
	var b strings.Builder
	b.WriteString("# path\tpart\texpected\tresult\tseconds\treason\n")
	for _, t := range tests {
		result, expected := t.result, "-"
		if t.alone {
			result = "alone: " + passed
		}
		if t.expected {
			expected = "expected"
		}
		if t.exempt != "" {
			expected = "exempt"
		}
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\t%.1f\t%s\n", t.path, t.part, expected, result, t.seconds, t.reason)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

// slowest lists the tests that took longest.
func slowest(tests []*test, n int) string {
	sorted := slices.SortedFunc(slices.Values(tests), func(a, b *test) int { return int(1000 * (b.seconds - a.seconds)) })
	var b strings.Builder
	for _, t := range sorted[:min(n, len(sorted))] {
		fmt.Fprintf(&b, "  %6s  %s\n", time.Duration(t.seconds*float64(time.Second)).Round(time.Second), t.path)
	}
	return b.String()
}

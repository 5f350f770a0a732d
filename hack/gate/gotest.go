package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// suite is a run of go test.
type suite struct {
	module   string // folder of a nested module; empty for the main one
	packages func(*gate) ([]string, error)
	flags    []string
	race     bool // with the race detector, where there is a C compiler
	print    bool // print what tests that pass log
}

// test returns the run of a part that consists of one suite.
//
// A test that fails is run once more, alone, after all others; if it passes then, the gate passes, and its last lines name the test under
// FAILED ONCE. Such a test has a defect, and docs/contributing/tests.md a line with its cause. These are never repeated: a data race, a
// panic, a build that fails, a timeout, and more than two failures.
func test(s suite) func(*gate) error {
	return func(g *gate) error {
		packages := []string{"."}
		if s.packages != nil {
			var err error
			if packages, err = s.packages(g); err != nil {
				return err
			}
		}
		r, err := g.goTest(s, packages...)
		if err == nil || g.count > 0 {
			return err
		}
		if r.fatal || len(r.failed) == 0 || len(r.failed) > 2 || slices.ContainsFunc(r.failed, func(t testName) bool { return t.test == "" }) {
			return err
		}
		for _, t := range r.failed {
			g.printf("== %s failed; it runs once more\n", t)
			again := s
			again.flags = append(slices.Clone(s.flags), "-count=1", "-run=^"+regexp.QuoteMeta(t.test)+"$")
			if _, err := g.goTest(again, t.importPath()); err != nil {
				return err
			}
			g.mu.Lock()
			g.again = append(g.again, t.String())
			g.mu.Unlock()
		}
		return nil
	}
}

// testName is a test of a package, or the package itself if test is empty.
type testName struct{ pkg, test string }

func (t testName) String() string { return strings.TrimSpace(t.pkg + " " + t.test) }

// importPath returns the import path of the package. A folder would be looked up in the nested module that go test runs in.
func (t testName) importPath() string {
	if folder, ours := strings.CutPrefix(t.pkg, "."); ours {
		return modulePath + folder
	}
	return t.pkg
}

// result is what a run of go test found.
type result struct {
	failed []testName
	fatal  bool // it found something for which no test is repeated
}

// event is a line of go test -json (go doc test2json), with the fields that are read here.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// fatal matches the output after which nothing is repeated.
var fatal = regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: |fatal error: |FAIL\s.*\[(build|setup) failed\])`)

// uninstrumented leaves SQLite, which is C translated to Go, without the race detector. It locks as C does, and the detector makes three times the
// time of it: the tests of the decision store that race use 13 s of a processor instead of 41.
const uninstrumented = "-gcflags=modernc.org/sqlite/lib=-race=false"

// goTest runs go test. It prints one line per package, and the whole output of tests and packages that fail.
func (g *gate) goTest(s suite, packages ...string) (result, error) {
	args := []string{"go", "test"}
	if s.module != "" {
		args = append(args, "-C", s.module)
	}
	args = append(args, "-json", "-vet=off", "-ldflags=-s -w") // `make lint` runs vet
	env := []string{"CGO_ENABLED=0"}
	if s.race && g.race {
		args, env = append(args, "-race", uninstrumented), []string{"CGO_ENABLED=1"}
	}
	args = append(args, s.flags...)
	if g.count > 0 {
		args = append(args, fmt.Sprintf("-count=%d", g.count), "-timeout=4h")
	}
	cmd := g.command(env, append(args, packages...)...)
	cmd.Stdout = nil // the pipe
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	r, err := g.read(pipe, s.print)
	return r, errors.Join(err, cmd.Wait())
}

// read reads the events of go test.
func (g *gate) read(events io.Reader, print bool) (r result, err error) {
	said := map[testName]string{} // output of packages and of their tests
	in := bufio.NewReaderSize(events, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, err
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			g.printf("%s", line)
			continue
		}
		if folder, ours := strings.CutPrefix(e.Package, modulePath); ours {
			e.Package = "." + folder
		}
		test, _, isPart := strings.Cut(e.Test, "/")
		name := testName{e.Package, test}
		r.fatal = r.fatal || fatal.MatchString(e.Output)
		took := measured{time.Duration(e.Elapsed * float64(time.Second)), name.String()}
		switch {
		case e.Action == "build-output":
			g.printf("%s", e.Output)
		case e.Action == "build-fail":
			r.fatal = true
		case e.Action == "output":
			if e.Test == "" && verdict.MatchString(e.Output) || print && e.Test != "" && !noise.MatchString(e.Output) {
				g.printf("%s", e.Output)
				continue
			}
			said[name] += e.Output
		case isPart || e.Action != "pass" && e.Action != "fail":
		case e.Action == "fail":
			// The package follows its tests; a package without a test that failed is named itself.
			if test != "" || !slices.ContainsFunc(r.failed, func(t testName) bool { return t.pkg == e.Package }) {
				r.failed = append(r.failed, name)
			}
			for of, text := range said { // a package that ended by itself leaves tests without a result
				if of == name || test == "" && of.pkg == e.Package {
					g.printf("%s", text)
					delete(said, of)
				}
			}
		default:
			g.mu.Lock()
			g.times = append(g.times, took)
			g.mu.Unlock()
			delete(said, name)
		}
	}
}

// verdict matches the last line about a package.
var verdict = regexp.MustCompile(`^(ok  |FAIL)\t`)

// noise matches the lines of a verbose run that say nothing.
var noise = regexp.MustCompile(`^\s*(=== |--- PASS)`)

// modulePath is the path of the main module, whose packages are printed as "./folder".
var modulePath = func() string {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return "?"
	}
	path, _, _ := strings.Cut(strings.TrimPrefix(string(text), "module "), "\n")
	return path
}()

// measured is the time that a part, a package or a test took. The name of a package is its folder ("./internal/event"), that of a test the
// package and the test.
type measured struct {
	took time.Duration
	name string
}

func (m measured) String() string { return fmt.Sprintf("%7.1f s  %s", m.took.Seconds(), m.name) }

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// make check leaves out the tests of a package that the list of times names as slow.
func TestSlow(t *testing.T) {
	known := map[string]float64{"./a TestLong": 12, "./a TestShort": 3, "./ab TestOther": 50, "./a": 80, "part: lint": 90, "./a TestAlso": 11}
	if got := strings.Join(slowIn(known, "./a"), " "); got != "TestAlso TestLong" {
		t.Errorf("got %q", got)
	}
}

// A test that fails is repeated alone, once, unless a repetition would hide something.
func TestRepeated(t *testing.T) {
	const (
		passes = "func TestPasses(t *testing.T) {}\n"
		// A test that fails only the first time.
		once = "func TestNAME(t *testing.T) { if _, err := os.Stat(\"NAME\"); err != nil { os.WriteFile(\"NAME\", nil, 0o600); t.Fatal(\"the first time\") } }\n"
	)
	defer func(path string) { modulePath = path }(modulePath)
	modulePath = "example.com" // that of the main module; the tests are in a nested one
	failsOnce := func(name string) string { return strings.ReplaceAll(once, "NAME", name) }
	for name, c := range map[string]struct {
		tests  string
		passes bool
		again  []string
	}{
		"all pass":             {tests: passes, passes: true},
		"one fails once":       {tests: passes + failsOnce("A"), passes: true, again: []string{"./m TestA"}},
		"two fail once":        {tests: failsOnce("A") + failsOnce("B"), passes: true, again: []string{"./m TestA", "./m TestB"}},
		"three fail once":      {tests: failsOnce("A") + failsOnce("B") + failsOnce("C")},
		"one fails twice":      {tests: passes + "func TestFails(t *testing.T) { t.Fatal() }\n"},
		"one fails, one twice": {tests: failsOnce("A") + "func TestFails(t *testing.T) { t.Fatal() }\n", again: []string{"./m TestA"}},
		"a panic":              {tests: "func TestA(t *testing.T) { if _, err := os.Stat(\"A\"); err != nil { os.WriteFile(\"A\", nil, 0o600); panic(\"first\") } }\n"},
		"a race that is found": {tests: "func TestA(t *testing.T) { if _, err := os.Stat(\"A\"); err != nil { os.WriteFile(\"A\", nil, 0o600); os.Stdout.WriteString(\"WARNING: DATA RACE\\n\"); t.Fatal() } }\n"},
		"a build that fails":   {tests: "func TestA(t *testing.T) { undefined() }\n"},
		"it ends by itself":    {tests: "func TestA(t *testing.T) { os.Exit(3) }\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, content string) {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("go.mod", "module example.com/m\n\ngo 1.26\n")
			write("m_test.go", "package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Stat\n\n"+c.tests)
			var out bytes.Buffer
			g := &gate{output: &out}
			err := test(suite{module: dir, flags: []string{"-count=1", "-timeout=1m"}, packages: fixed("example.com/m")})(g)
			if (err == nil) != c.passes {
				t.Errorf("%v, passes: %v\n%s", err, c.passes, &out)
			}
			if !slices.Equal(g.again, c.again) {
				t.Errorf("repeated %q, want %q\n%s", g.again, c.again, &out)
			}
			if last := "ok  \texample.com/m"; c.passes && !strings.Contains(out.String(), last) {
				t.Errorf("the output lacks %q:\n%s", last, &out)
			}
		})
	}
}

// Every part runs although one before it failed.
func TestAllPartsRun(t *testing.T) {
	var out bytes.Buffer
	g := &gate{output: &out}
	g.run(part{"fails", sh("false")}, part{"runs", sh("echo it ran")})
	if !slices.Equal(g.failed, []string{"fails"}) || !strings.Contains(out.String(), "it ran\n") {
		t.Errorf("failed %q\n%s", g.failed, &out)
	}
}

// Each of the last parts runs once, in whichever lane has ended; one that fails keeps none from running.
func TestLastParts(t *testing.T) {
	var mu sync.Mutex
	ran := map[string]int{}
	count := func(name string) part {
		return part{name, func(*gate) error {
			mu.Lock()
			defer mu.Unlock()
			ran[name]++
			if name == "b" {
				return errors.New("it failed")
			}
			return nil
		}}
	}
	ended := make(chan struct{})
	waits := part{"waits", func(*gate) error { <-ended; return nil }}
	ends := part{"d", func(*gate) error { close(ended); return nil }} // only the other lane can take it
	g := &gate{output: &bytes.Buffer{}}
	g.runLanes([][]part{{waits}, {count("a")}}, []part{count("b"), count("c"), ends, count("e")})
	if !maps.Equal(ran, map[string]int{"a": 1, "b": 1, "c": 1, "e": 1}) || !slices.Equal(g.failed, []string{"b"}) || len(g.times) != 6 {
		t.Errorf("%v, failed %q, %d times", ran, g.failed, len(g.times))
	}
}

// The list names what grew by half, and the new ones among the slowest tests.
func TestCompare(t *testing.T) {
	known := map[string]float64{"part: lint": 10, "./a TestOld": 4, "./a TestShort": 0.1}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	got := strings.Join(compare([]measured{
		{seconds(16), "part: lint"}, {seconds(5.9), "./a TestOld"}, {seconds(1), "./a TestShort"}, {seconds(3), "./a TestNew"}, {seconds(9), "./e2e/a"},
	}, known), "\n")
	for _, want := range []string{"GREW BY HALF: part: lint took 16.0 s, and 10.0 s", "NEW AMONG THE SLOWEST: ./a TestNew took 3.0 s", "9.0 s  ./e2e/a"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "HALF: ./a") {
		t.Errorf("a test that did not grow by half is named:\n%s", got)
	}
}

// On a machine that takes twice as long for everything, only the row that grew more is named.
func TestCompareOnASlowMachine(t *testing.T) {
	known := map[string]float64{}
	var times []measured
	for i := range 12 {
		name := fmt.Sprintf("part: %d", i)
		known[name] = 10
		times = append(times, measured{20 * time.Second, name})
	}
	times[3].took = 40 * time.Second
	got := strings.Join(compare(times, known), "\n")
	if strings.Count(got, "GREW BY HALF") != 1 || !strings.Contains(got, "GREW BY HALF: part: 3 took 40.0 s, and 10.0 s") || !strings.Contains(got, "2.0 x the times") {
		t.Errorf("got\n%s", got)
	}
}

// Each test that runs without the race detector exists, and no other package of the unit tests has one of its name, which would not run at all.
func TestLong(t *testing.T) {
	t.Chdir("../..")
	packages, err := units(nil)
	if err != nil {
		t.Fatal(err)
	}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	pattern := regexp.MustCompile(anyOf(long))
	var found []testName
	for _, pkg := range packages {
		files, _ := filepath.Glob(pkg + "/*_test.go")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				if pattern.MatchString(m[1]) {
					found = append(found, testName{pkg, m[1]})
				}
			}
		}
	}
	for _, x := range long {
		if !slices.Contains(found, x) {
			t.Errorf("there is no %s", x)
		}
	}
	for _, x := range found {
		if !slices.Contains(long, x) {
			t.Errorf("%s has the name of a long test", x)
		}
	}
}

// Tests that start goroutines, by themselves or in code that they call, run with the race detector.
func TestRacing(t *testing.T) {
	t.Chdir("../..")
	defer func(path string) { modulePath = path }(modulePath)
	modulePath = "ephor.invalid/ephor"
	none := []string{"./internal/wildcard", "./internal/budget"}
	some := []string{"./internal/fetch", "./internal/certs", "./internal/cel/compiler"} // goroutines of its own, a server, parallel tests
	got, err := racing(slices.Concat(none, some))
	if err != nil || !slices.Equal(got, some) {
		t.Errorf("%q, %v; want %q", got, err, some)
	}
}

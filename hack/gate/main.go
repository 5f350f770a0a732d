// Command gate runs every check of the repository, as `make test` does, and ends with the time of each part.
//
//	go run ./hack/gate            all parts, in two lanes side by side (parts.go)
//	go run ./hack/gate -write     the same, and writes the times to hack/gate/times.tsv
//	go run ./hack/gate -check     `make check`: lint, floors, and the unit tests of what differs from the branch main
//	go run ./hack/gate -only end-to-end -count 10
//	                              the parts whose name has the text, each test ten times
//
// It needs Go, git and make. Without the conformance data, jq, a browser, a C compiler, ruby, dpkg, curl or PostgreSQL it leaves parts out, and
// its last lines name them as NOT RUN. With CI=true a missing tool is an error, except for the C compiler, ruby, dpkg, curl and PostgreSQL.
//
//	CI                 "true" makes everything required
//	EPHOR_CONFORMANCE  folder of the conformance data (default ../shared/conformance); "none" runs without them
//	EPHOR_REFERENCE    folder of the reference schemas (default ../shared/reference)
//	EPHOR_UI           "none" runs without a browser
//	EPHOR_E2E          folders below e2e/, to run their end-to-end tests only ("rollout trust")
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	check := flag.Bool("check", false, "run only lint, floors, and the unit tests of what differs from the branch main")
	write := flag.Bool("write", false, "write the times to "+timesFile)
	only := flag.String("only", "", "run only the parts whose name has this text")
	count := flag.Int("count", 0, "run each test so often; a test that fails is not run again then")
	flag.Parse()
	g := &gate{started: time.Now(), output: os.Stdout, count: *count, check: *check}
	if err := g.look(); err != nil {
		fmt.Fprintln(os.Stderr, "make test:", err)
		os.Exit(1)
	}
	lanes, last := [][]part{busy, waiting}, rest
	first := programs
	if *check {
		first, lanes, last = nil, [][]part{quick}, nil
	}
	other := func(p part) bool { return !strings.Contains(p.name, *only) }
	for i := range lanes {
		lanes[i] = slices.DeleteFunc(lanes[i], other)
	}
	last = slices.DeleteFunc(last, other)
	if *only != "" {
		g.notRun = append(g.notRun, "parts without \""+*only+"\" in their name: NOT RUN (-only)")
	}
	g.run(first...)
	if len(g.failed) == 0 {
		g.runLanes(lanes, last)
	}
	g.summary(*write)
	if len(g.failed) > 0 {
		os.Exit(1)
	}
}

// gate is one run. Its lanes share it.
type gate struct {
	started time.Time
	race    bool // there is a C compiler, which the race detector needs
	check   bool // it is a quick try
	count   int  // how often each test runs; 0 for once, and once more after a failure

	mu     sync.Mutex
	output interface{ Write([]byte) (int, error) }
	times  []measured // parts, packages of end-to-end tests, and tests
	failed []string   // parts
	again  []string   // tests that failed and then passed
	notRun []string
}

// run runs parts one after the other. A part that fails does not keep the following ones from running.
func (g *gate) run(parts ...part) {
	for _, p := range parts {
		begin := time.Now()
		g.printf("== %s\n", p.name)
		err := p.run(g)
		took := time.Since(begin)
		g.mu.Lock()
		g.times = append(g.times, measured{took, partPrefix + p.name})
		if err != nil {
			g.failed = append(g.failed, p.name)
		}
		g.mu.Unlock()
		if err != nil {
			g.printf("== %s: FAILED after %.0f s: %v\n", p.name, took.Seconds(), err)
		}
	}
}

// runLanes runs the lanes side by side. A lane that has ended takes the next one of the last parts, until there is none.
func (g *gate) runLanes(lanes [][]part, last []part) {
	next := make(chan part, len(last))
	for _, p := range last {
		next <- p
	}
	close(next)
	var wg sync.WaitGroup
	for i, lane := range lanes {
		wg.Go(func() {
			// Each lane yields the processor to those after it. Linux keeps a priority for each thread, and commands inherit that of the
			// thread that starts them.
			runtime.LockOSThread()
			if n := 10 * (len(lanes) - 1 - i); n > 0 {
				if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, n); err != nil {
					g.printf("make test: %v\n", err)
				}
			}
			g.run(lane...)
			for p := range next {
				g.run(p)
			}
		})
	}
	wg.Wait()
}

func (g *gate) printf(format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fmt.Fprintf(g.output, format, args...)
}

// summary prints the times and what was not run, and the result last.
func (g *gate) summary(write bool) {
	known, err := readTimes()
	if err != nil {
		g.failed = append(g.failed, err.Error())
	}
	lines := compare(g.times, known)
	if g.check { // the rest is about whole runs
		lines = nil
		for _, m := range g.times {
			if strings.HasPrefix(m.name, partPrefix) {
				lines = append(lines, m.String())
			}
		}
	}
	for _, line := range lines {
		fmt.Println(line)
	}
	if write {
		if err := writeTimes(g.times); err != nil {
			g.failed = append(g.failed, err.Error())
		}
	}
	for _, line := range g.notRun {
		fmt.Println(line)
	}
	for _, name := range g.again {
		fmt.Println("FAILED ONCE, then passed: " + name)
	}
	took := time.Since(g.started).Seconds()
	if len(g.failed) > 0 {
		fmt.Printf("== FAILED after %.0f s: %s\n", took, strings.Join(g.failed, "; "))
		return
	}
	fmt.Printf("== all parts passed after %.0f s\n", took)
}

// command returns a command in the root of the repository, with what it prints among the output of the gate.
func (g *gate) command(env []string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &lines{g: g}, &lines{g: g}
	return cmd
}

// sh returns the run of a part that consists of commands.
func sh(commands ...string) func(*gate) error {
	return func(g *gate) error {
		for _, l := range commands {
			if err := g.command(nil, strings.Fields(l)...).Run(); err != nil {
				return fmt.Errorf("%s: %w", l, err)
			}
		}
		return nil
	}
}

// lines is a writer that passes whole lines on, so that the lanes do not mix theirs.
type lines struct {
	g    *gate
	rest []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	if end := strings.LastIndexByte(string(l.rest), '\n') + 1; end > 0 {
		l.g.printf("%s", l.rest[:end])
		l.rest = append(l.rest[:0], l.rest[end:]...)
	}
	return len(p), nil
}

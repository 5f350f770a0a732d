// Command conformance runs the public chainsaw suite on development control planes that run Ephor.
//
//	make conformance                              # every test that is expected to pass
//	make conformance DIRS="validate exceptions"   # only those below these folders
//	make conformance SHARDS=4                     # on four control planes at once
//
// The tests on a control plane run one after the other, and it is cleaned between them. A test that fails runs once more, alone, after all
// others. The baseline beside the suite defines the expected tests: those that Kyverno passes in the same environment, in the parts of the
// work that are built. more.tsv and network.txt list further rows that must pass, exempt.tsv those that do not count, and why.
// build/conformance.tsv lists the results, build/conformance/ has the output of each test. The exit status is 1 if an expected test failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ephor.invalid/ephor/internal/devcluster"
)

// builtParts are the complete parts of the work, whose tests must pass; -parts selects others.
const builtParts = "Language Admission Background Reports CEL Images"

func main() {
	var (
		dirs   = flag.String("dirs", "", "run only the tests below these folders of the suite, separated by blanks")
		parts  = flag.String("parts", builtParts, "parts of the work whose tests are expected to pass")
		shards = flag.Int("shards", 1, "control planes to use at once")
		extra  = flag.Bool("extra", false, "also run what is not expected to pass")
		args   = flag.String("chainsaw", "", "more flags for chainsaw, separated by blanks")
		once   = flag.Bool("once", false, "do not run failed tests once more")
		out    = flag.String("out", "build", "folder of the results")
		keep   = flag.Bool("keep", false, "run no test: start a control plane as tests find it, and wait for Ctrl-C")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	r := runner{
		selection: selection{parts: strings.Fields(*parts), dirs: strings.Fields(*dirs), extra: *extra},
		shards:    *shards, flags: strings.Fields(*args), once: *once, keep: *keep, out: *out,
	}
	ok, err := r.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

type runner struct {
	selection selection
	shards    int
	flags     []string
	once      bool
	keep      bool
	out       string

	programs programs
	mu       sync.Mutex // orders the output
}

func (r *runner) run(ctx context.Context) (ok bool, err error) {
	data := os.Getenv("EPHOR_CONFORMANCE")
	if data == "" {
		data = filepath.Join("..", "shared", "conformance")
	}
	if r.selection.exempt, err = readExemptions(exemptions); err != nil {
		return false, err
	}
	r.selection.network = readNetwork(networkRows)
	if r.selection.more, err = readMore(moreRows); err != nil {
		return false, err
	}
	tests, err := readTests(data, r.selection)
	if err != nil {
		return false, fmt.Errorf("%w (EPHOR_CONFORMANCE names the folder of the data)", err)
	}
	if len(tests) == 0 {
		return false, errors.New("no test is selected")
	}
	if r.programs, err = findPrograms(ctx); err != nil {
		return false, err
	}
	if r.out, err = filepath.Abs(r.out); err != nil {
		return false, err
	}
	logs := filepath.Join(r.out, "conformance")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return false, err
	}
	work, err := os.MkdirTemp("", "ephor-conformance-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(work)

	suite := filepath.Join(data, "chainsaw")
	// The other parts run without a network, as in the recording of the baseline.
	plain, images := split(tests)
	for i, group := range byFlags(plain) {
		if ctx.Err() == nil && !(r.keep && (i > 0 || len(images) > 0)) {
			err = errors.Join(err, r.batch(ctx, group, suite, filepath.Join(work, fmt.Sprint("plain-", i)), logs))
		}
	}
	if len(images) > 0 && ctx.Err() == nil {
		err = errors.Join(err, r.batchWithImages(ctx, images, suite, work, logs))
	}
	if err := errors.Join(err, ctx.Err()); err != nil || r.keep {
		return r.keep, err
	}
	if err := writeList(filepath.Join(r.out, "conformance.tsv"), tests); err != nil {
		return false, err
	}
	result := count(tests)
	fmt.Printf("slowest:\n%s", slowest(tests, 5))
	if result.alone > 0 {
		fmt.Printf("passed only alone: %d (at most 2 %% may)\n", result.alone)
	}
	fmt.Print(exemptResults(tests))
	fmt.Println(result)
	return result.failed == 0 && !result.tooManyAlone(), nil
}

// split separates the tests that use registries from the others.
func split(tests []*test) (plain, images []*test) {
	for _, t := range tests {
		if t.part == partOfImages || t.network {
			images = append(images, t)
		} else {
			plain = append(plain, t)
		}
	}
	return plain, images
}

// byFlags groups tests that need the same flags: those without flags first.
func byFlags(tests []*test) (out [][]*test) {
	at := map[string]int{}
	for _, t := range slices.SortedStableFunc(slices.Values(tests), func(a, b *test) int { return strings.Compare(a.flags, b.flags) }) {
		i, known := at[t.flags]
		if !known {
			i, out = len(out), append(out, nil)
			at[t.flags] = i
		}
		out[i] = append(out[i], t)
	}
	return out
}

// batchWithImages runs tests that use registries, which are served from memory.
func (r *runner) batchWithImages(ctx context.Context, tests []*test, suite, work, logs string) error {
	net, err := startInternet(work)
	if err != nil {
		return err
	}
	defer net.stop()
	r.programs.images = true
	return r.batch(ctx, tests, suite, filepath.Join(work, "images"), logs)
}

// batch runs tests that need the same flags on separate control planes, and repeats those that failed.
func (r *runner) batch(ctx context.Context, tests []*test, suite, work, logs string) error {
	r.programs.flags = tests[0].flags
	if r.keep {
		return r.wait(ctx, suite, work)
	}
	queue := make(chan *test, len(tests))
	for _, t := range tests {
		queue <- t
	}
	close(queue)
	n := max(1, min(r.shards, len(tests)))
	errs := make([]error, n)
	var running sync.WaitGroup
	done := 0
	for i := range n {
		running.Go(func() {
			s, err := startShard(ctx, r.programs, suite, filepath.Join(work, fmt.Sprint(i)), r)
			if err != nil {
				errs[i] = fmt.Errorf("control plane %d: %w", i, err)
				return
			}
			defer s.stop()
			for t := range queue {
				if ctx.Err() != nil {
					return
				}
				s.run(ctx, t, r.programs, logs, r.flags)
				r.mu.Lock()
				done++
				fmt.Printf("%4d/%d  %-6s %5.1fs  %s\n", done, len(tests), t.result, t.seconds, t.path)
				if t.reason != "" {
					fmt.Printf("             %s\n", t.reason)
				}
				r.mu.Unlock()
			}
			s.keepLogs(logs, i)
		})
	}
	running.Wait()
	if ctx.Err() == nil && !r.once {
		errs = append(errs, r.again(ctx, tests, suite, filepath.Join(work, "alone"), logs))
	}
	return errors.Join(errs...)
}

// again repeats the expected tests that failed, one by one on a fresh control plane, with nothing else running.
func (r *runner) again(ctx context.Context, tests []*test, suite, dir, logs string) error {
	var failed []*test
	for _, t := range tests {
		if t.expected && t.result != passed {
			failed = append(failed, t)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	s, err := startShard(ctx, r.programs, suite, dir, r)
	if err != nil {
		return err
	}
	defer s.stop()
	for _, t := range failed {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.run(ctx, t, r.programs, logs, r.flags)
		t.alone = t.result == passed
		fmt.Printf("alone: %-6s %5.1fs  %s\n", t.result, t.seconds, t.path)
	}
	s.keepLogs(logs, len(failed))
	return nil
}

// wait starts a control plane for manual experiments.
func (r *runner) wait(ctx context.Context, suite, work string) error {
	s, err := startShard(ctx, r.programs, suite, filepath.Join(work, "0"), r)
	if err != nil {
		return err
	}
	defer s.stop()
	fmt.Printf("export KUBECONFIG=%s PATH=%s:$PATH\ncd %s && %s test --test-dir ⟨folder⟩\nCtrl-C ends it.\n", s.cluster.Kubeconfig, s.path, s.suite, r.programs.chainsaw)
	<-ctx.Done()
	return nil
}

// Write prints one complete line of progress; shards start at the same time.
func (r *runner) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return os.Stdout.Write(b)
}

var _ io.Writer = (*runner)(nil)

// findPrograms builds the programs that tests call and looks for the others.
func findPrograms(ctx context.Context) (p programs, err error) {
	for _, name := range []string{"jq", "curl", "openssl", "bash"} {
		if _, err := exec.LookPath(name); err != nil {
			return p, fmt.Errorf("tests call %s: %w", name, err)
		}
	}
	root, err := devcluster.Root()
	if err != nil {
		return p, err
	}
	p.chainsaw, p.ephor = filepath.Join(root, "bin", "tools", "chainsaw"), filepath.Join(root, "bin", "ephor")
	if !exists(p.ephor) {
		return p, errors.New("bin/ephor is not there: run `make build`")
	}
	if p.devcluster, err = devcluster.Build(ctx, os.Stdout); err != nil {
		return p, err
	}
	if !exists(p.chainsaw) {
		fmt.Println("Building chainsaw (the first time a few minutes on two cores) ...")
	}
	start := time.Now()
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join(root, "hack", "tools", "chainsaw"), "-trimpath", "-ldflags=-s -w",
		"-o", p.chainsaw, "github.com/kyverno/chainsaw")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		return p, fmt.Errorf("build chainsaw: %w\n%s", err, out)
	}
	if took := time.Since(start); took > 10*time.Second {
		fmt.Printf("Built chainsaw in %s.\n", took.Round(time.Second))
	}
	return p, nil
}

// keepLogs copies the controllers' logs to the folder of the tests' output.
func (s *shard) keepLogs(dir string, i int) {
	files, _ := filepath.Glob(filepath.Join(s.cluster.Dir, "kyverno-*.log"))
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("shard-%d-%s", i, filepath.Base(file))), b, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
		}
	}
}

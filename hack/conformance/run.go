package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// programs are the binaries that a run needs.
type programs struct {
	chainsaw, devcluster, ephor string

	images bool   // serve the images that the suite names, under their names there
	flags  string // flags for the controllers, from more.tsv
}

// testTime bounds one test; it is longer than all timeouts of the suite's own steps together.
const testTime = 10 * time.Minute

// run runs one test and leaves the shard ready for the next one.
func (s *shard) run(ctx context.Context, t *test, p programs, logs string, flags []string) {
	t.result, t.reason = "failed", ""
	if err := s.startControllers(ctx); err != nil {
		t.reason = "before the test: " + oneLine(err.Error())
		return
	}
	start := time.Now()
	output, err := s.chainsaw(ctx, t, p, flags)
	t.seconds = time.Since(start).Seconds()
	var notes strings.Builder
	if err == nil {
		t.result = passed
	} else {
		t.reason = reason(output, err)
	}
	// A test that only asserts absence must not pass because nothing runs.
	if err := s.ready(); err != nil {
		t.result, t.reason = "failed", "after the test: "+oneLine(err.Error())
		fmt.Fprintf(&notes, "\nnot ready after the test: %v\n", err)
	}
	left, err := s.cleaner.clean(ctx)
	if len(left) > 0 {
		fmt.Fprintf(&notes, "\nleft behind and removed: %s\n", strings.Join(left, ", "))
	}
	if err == nil {
		err = s.cleaner.settled(ctx, s.webhooks)
	}
	if err != nil {
		fmt.Fprintf(&notes, "\nafter the test: %v\n", err)
	}
	name := filepath.Join(logs, strings.ReplaceAll(t.path, "/", "__")+".log")
	if err := os.WriteFile(name, []byte(output+notes.String()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
}

// chainsaw runs the test with the nearest configuration above it.
func (s *shard) chainsaw(ctx context.Context, t *test, p programs, flags []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	dir := filepath.Join(s.suite, filepath.FromSlash(t.path))
	args := []string{"test", "--test-dir", dir, "--no-color"}
	for up := dir; up != s.suite; up = filepath.Dir(up) {
		if config := filepath.Join(up, ".chainsaw.yaml"); exists(config) {
			args = append(args, "--config", config)
			break
		}
	}
	cmd := exec.CommandContext(ctx, p.chainsaw, append(args, flags...)...)
	cmd.Dir = s.suite
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.cluster.Kubeconfig, "PATH="+s.path+":"+os.Getenv("PATH"))
	// Scripts start programs of their own: all of them must end when the time is up, or when this process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = errors.Join(ctx.Err(), err)
	}
	return string(out), err
}

// reason finds the error of a failed test in its output, in one line.
func reason(output string, err error) string {
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		if strings.Contains(line, "| ERROR |") || strings.Contains(line, "=== ERROR") {
			return oneLine(strings.Join(lines[i:min(i+40, len(lines))], " "))
		}
	}
	return oneLine(err.Error() + " " + strings.Join(lines[max(0, len(lines)-10):], " "))
}

// oneLine returns the text for a cell of a table.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 600 {
		s = s[:600] + "…"
	}
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// suitesTarget is the target for the time of `ephor test` on all test directories of the public library.
const suitesTarget = 1500 * time.Millisecond

// suites runs all test directories of the public library in one call. The command reports those that it cannot run.
func (b *bench) suites() error {
	folder, err := b.conformanceFolder()
	if err != nil || folder == "" {
		return err
	}
	var best time.Duration
	var said string
	for range 3 {
		cmd := exec.Command(b.ephor, "test", filepath.Join(folder, "policies"), "--fail-only", "--remove-color")
		begin := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(begin)
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return err
		}
		if best == 0 || took < best {
			best = took
		}
		said = string(out)
	}
	i := strings.Index(said, "Test Summary: ")
	if i < 0 {
		return fmt.Errorf("ephor test ends without a summary:\n%s", said)
	}
	line, rest, _ := strings.Cut(said[i:], "\n")
	fmt.Printf("test, all public test directories: %.2f s (target %.1f s); %s\n", best.Seconds(), suitesTarget.Seconds(), line)
	for _, l := range strings.Split(rest, "\n") {
		if strings.Contains(l, "could not be run") {
			fmt.Println(l)
		}
	}
	b.row("test, public library", "s", best.Seconds(), suitesTarget.Seconds())
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ownCPU returns the user and system time that this process has used.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// run holds the cost of one command.
type run struct {
	wall, cpu time.Duration
	peakMB    float64
	exit      int
	ended     bool // it was ended, since it took longer than commandLimit
}

// commandLimit bounds a command.
const commandLimit = 2 * time.Minute

// measure runs a command to its end and discards its output.
func measure(path string, args ...string) (run, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return run{}, err
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	r := run{wall: wall, cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(),
		peakMB: float64(usage.Maxrss) / 1000, exit: cmd.ProcessState.ExitCode(), ended: ctx.Err() != nil}
	if r.exit > 1 {
		return r, fmt.Errorf("%s %s: exit code %d: %s", path, strings.Join(args, " "), r.exit, stderr.String())
	}
	return r, nil
}

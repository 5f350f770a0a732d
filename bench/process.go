package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// cpuTime is the user and system time that a running process has used (Linux).
func cpuTime(pid int) (time.Duration, error) {
	// schedstat counts nanoseconds; stat only clock ticks. It is per thread, and threads that ended are missing there,
	// so stat is the total and precise enough over the thousands of requests of a round.
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 13 {
		return 0, errors.New("unexpected format of /proc/PID/stat")
	}
	const ticksPerSecond = 100 // USER_HZ, fixed on Linux
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticksPerSecond, errors.Join(err1, err2)
}

// ownCPU is the user and system time that this process has used.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// residentMB is the resident memory of a running process in MB.
func residentMB(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(b), "\n") {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == "VmRSS:" {
			kb, err := strconv.ParseFloat(f[1], 64)
			return kb / 1000, err
		}
	}
	return 0, errors.New("no VmRSS in /proc/PID/status")
}

// run is what one command cost.
type run struct {
	wall, cpu time.Duration
	peakMB    float64
	exit      int
}

// measure runs a command to its end with its output thrown away.
func measure(path string, args ...string) (run, error) {
	cmd := exec.Command(path, args...)
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
		peakMB: float64(usage.Maxrss) / 1000, exit: cmd.ProcessState.ExitCode()}
	if r.exit > 1 {
		return r, fmt.Errorf("%s %s: exit code %d: %s", path, strings.Join(args, " "), r.exit, stderr.String())
	}
	return r, nil
}

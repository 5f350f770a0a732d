package load

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPUTime returns the user and system time that a running process has used (Linux).
func CPUTime(pid int) (time.Duration, error) {
	// schedstat counts nanoseconds; stat only clock ticks. But schedstat is per thread and omits threads that have
	// ended, so stat is the total, and precise enough over the thousands of requests in a round.
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

// ResidentMB returns the resident memory of a running process in MB.
func ResidentMB(pid int) (float64, error) {
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

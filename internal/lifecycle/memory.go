package lifecycle

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"ephor.invalid/ephor/internal/lifecycle/firstgc"
)

// GCPercent lets the heap grow to four times the live heap before a collection. The live heap is a few megabytes, so at the default of 100
// a busy server would spend much of its time on marking. The peak stays far below that of a common live heap with the default.
const GCPercent = 300

// While a process starts, it collects at startPercent: its caches and compiled policies then lie close together. Go moves no objects, so they
// stay scattered over a heap that grew to four times their size, and their pages stay resident. `bench rest`: 0.96 × the resident memory with
// 18 policies, 0.93 × with 36. Garbage.Bound ends it after StartTime.
const (
	startPercent = 100
	// StartTime is how long a process collects at startPercent. Measurements of a running process begin after it.
	StartTime = 15 * time.Second
)

// TuneHeap sets the garbage collector's parameters unless the environment does. ratio is the fraction of the container's memory that the
// heap may use; 0 for no limit.
func TuneHeap(ratio float64) {
	firstgc.End()
	if !firstgc.Tuned() {
		debug.SetGCPercent(startPercent)
	}
	if limit := containerMemory(os.ReadFile); ratio > 0 && limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(float64(limit) * ratio))
	}
}

// containerMemory returns the memory limit of the control group (version 2 or 1) in bytes; 0 if there is none.
func containerMemory(read func(string) ([]byte, error)) int64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := read(file)
		if err != nil {
			continue
		}
		// Version 2 writes "max" for no limit, version 1 a number larger than any machine's memory.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < 1<<50 {
			return n
		}
	}
	return 0
}

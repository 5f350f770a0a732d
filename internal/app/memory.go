package app

import (
	"errors"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// gcPercent lets the heap grow to four times what is in use before it is collected. The live heap is a few megabytes, so
// that at the default of 100 a busy server would spend much of its time marking it; the peak stays far below what the
// default needs for a live heap of an ordinary size.
const gcPercent = 300

// memoryFlags bound the memory by what the container may have.
type memoryFlags struct {
	enabled bool
	ratio   float64
}

func (f *memoryFlags) register(fs *pflag.FlagSet) {
	fs.BoolVar(&f.enabled, "autoMemLimitEnabled", true, "collect garbage more eagerly near the memory limit of the container")
	fs.Float64Var(&f.ratio, "autoMemLimitRatio", 0.9, "part of the container's memory that the heap may take, above 0 and up to 1")
}

func (f *memoryFlags) complete() error {
	if !(f.ratio > 0 && f.ratio <= 1) {
		return errors.New("--autoMemLimitRatio must be above 0 and at most 1")
	}
	return nil
}

// tune sets the collector unless the environment does.
func (f *memoryFlags) tune() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if limit := containerMemory(os.ReadFile); f.enabled && limit > 0 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(float64(limit) * f.ratio))
	}
}

// containerMemory is the memory limit of the control group in bytes, of version 2 or 1; 0 when there is none.
func containerMemory(read func(string) ([]byte, error)) int64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := read(file)
		if err != nil {
			continue
		}
		// Version 2 writes "max" for no limit, version 1 a number that no machine has.
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n < 1<<50 {
			return n
		}
	}
	return 0
}

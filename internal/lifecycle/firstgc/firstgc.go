package firstgc

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// percent makes Go collect first at 16 MB: its minimum of 4 MB grows with the percentage.
const percent = 400

var (
	mu      sync.Mutex
	delayed bool
	before  int // the percentage that applies after the first collection
)

// sentinel is unreachable from the start, so that the first collection frees it. It is large because Go sweeps large objects first. Go frees
// small objects so late that the heap of a busy process would have grown to four times the size that it needs. No code writes to it, so that it
// uses no memory pages.
type sentinel [64 << 10]byte

// init delays the first collection, and notices it by a finalizer. Without it, a process takes 1.5 × the processor time to fill its heap with 7 MB
// (BenchmarkStart).
func init() {
	if runtime.MemProfileRate == ProfileRate {
		runtime.MemProfileRate = 0
	}
	if Tuned() {
		return
	}
	before, delayed = debug.SetGCPercent(percent), true
	runtime.SetFinalizer(new(sentinel), func(*sentinel) { End() })
}

// ProfileRate is Go's own rate of samples of allocations, in bytes. A process without --profile shows its samples to no one, and their table
// takes 1.5 MB (go_memstats_buck_hash_sys_bytes), 2 % of the resident memory of a controller at rest. Go allocates the table with the first
// sample, while packages are initialized. lifecycle.Profiles switches the samples on again. `go test -memprofile` of a package that links this one needs -memprofilerate=524288.
const ProfileRate = 512 << 10

// Tuned reports whether the environment tunes the collector.
func Tuned() bool { return os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" }

// End makes Go's own pace apply from now on. The first collection calls it too.
func End() {
	mu.Lock()
	defer mu.Unlock()
	if delayed {
		delayed = false
		debug.SetGCPercent(before)
	}
}

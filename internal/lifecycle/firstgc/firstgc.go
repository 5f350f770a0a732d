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
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	before, delayed = debug.SetGCPercent(percent), true
	runtime.SetFinalizer(new(sentinel), func(*sentinel) { End() })
}

// End makes Go's own pace apply from now on. The first collection calls it too.
func End() {
	mu.Lock()
	defer mu.Unlock()
	if delayed {
		delayed = false
		debug.SetGCPercent(before)
	}
}

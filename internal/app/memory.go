package app

import (
	"os"
	"runtime/debug"
)

// gcPercent lets the heap grow to four times what is in use before it is collected. The live heap is a few megabytes, so
// that at the default of 100 a busy server would spend much of its time marking it; the peak stays far below what the
// default needs for a live heap of an ordinary size.
const gcPercent = 300

// tuneMemory sets the collector unless the environment does.
func tuneMemory() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

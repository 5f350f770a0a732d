package lifecycle

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A process is quiet when it allocates little for a while. Only then is memory worth more to the machine than to the process: under load
// each page that was given back would be asked for again at once.
const (
	quietEvery = 5 * time.Second
	quietBytes = 1 << 20 // allocated in quietEvery
	quietTimes = 2       // in a row
	// leastSpare is the smallest amount for which a collection is worth its time. A large heap takes longer to collect, so that half of what
	// is live has to be spare there.
	leastSpare = 4 << 20
	spareEvery = 30 * time.Second
)

// ReturnMemory collects garbage and gives free memory back to the operating system whenever the process becomes quiet, until ctx is done:
// after the start, after policies were compiled, after a load. Go itself keeps as much as the heap may grow to, which is four times what is
// in use (gcPercent). It does nothing where the environment tunes the collector.
func ReturnMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	tick := time.NewTicker(quietEvery)
	defer tick.Stop()
	returnMemory(ctx, tick.C, debug.FreeOSMemory)
}

func returnMemory(ctx context.Context, tick <-chan time.Time, free func()) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	var q quiet
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
		metrics.Read(samples)
		if q.due(heap{
			allocated: samples[0].Value.Uint64(), live: samples[1].Value.Uint64(),
			held: samples[2].Value.Uint64() + samples[3].Value.Uint64(),
		}) {
			free()
		}
	}
}

// heap is what the runtime says of it, in bytes.
type heap struct {
	allocated uint64 // since the start
	live      uint64 // found by the last collection
	held      uint64 // objects, and what is free and not given back
}

// quiet decides when memory is given back. It is asked every quietEvery.
type quiet struct {
	allocated uint64 // when it was last asked
	times     int    // in a row without much allocated
	wait      int    // times to be asked before memory may be given back again
}

// due reports whether memory is given back now.
func (q *quiet) due(h heap) bool {
	calm := h.allocated-q.allocated < quietBytes
	q.allocated = h.allocated
	q.wait = max(0, q.wait-1)
	if !calm {
		q.times = 0
		return false
	}
	q.times++
	spare := max(leastSpare, h.live/2)
	if q.times < quietTimes || h.held < h.live+spare || q.wait > 0 {
		return false
	}
	q.wait = int(spareEvery / quietEvery)
	return true
}

package lifecycle

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"ephor.invalid/ephor/internal/lifecycle/firstgc"
)

// A process is quiet when it allocates little for a while. Only then is memory more useful to the machine than to the process: under load,
// the process would request each returned page again at once.
const (
	quietEvery = 5 * time.Second
	quietBytes = 1 << 20 // allocated within quietEvery
	quietTimes = 2       // number of consecutive quiet intervals
	// leastSpare is the smallest amount that is worth a collection. A large heap takes longer to collect, so there the spare memory must
	// also be at least a quarter of the live heap. With 4 MiB the admission controller with 18 policies rested at 81 MB and used 228 ms of CPU a
	// minute, with 2 MiB at 75 MB and 208 ms (go run ./bench rest).
	leastSpare = 2 << 20
	spareEvery = 30 * time.Second
)

// ReturnMemory collects garbage and returns free memory to the operating system whenever the process becomes quiet, until ctx is done:
// after the start, after policies were compiled, after a period of load. Go itself keeps all memory up to the size to which the heap may
// grow, four times the live heap (GCPercent). ReturnMemory does nothing if the environment tunes the collector.
func ReturnMemory(ctx context.Context) {
	if firstgc.Tuned() {
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

// heap is the state of the heap according to the runtime, in bytes.
type heap struct {
	allocated uint64 // since the start
	live      uint64 // found by the last collection
	held      uint64 // objects, and free memory that was not returned
}

// quiet decides when memory is returned. Its method due is called every quietEvery.
type quiet struct {
	allocated uint64 // at the last call
	times     int    // consecutive calls with few allocations
	wait      int    // calls until memory may be returned again
}

// due reports whether to return memory now.
func (q *quiet) due(h heap) bool {
	calm := h.allocated-q.allocated < quietBytes
	q.allocated = h.allocated
	q.wait = max(0, q.wait-1)
	if !calm {
		q.times = 0
		return false
	}
	q.times++
	spare := max(leastSpare, h.live/4)
	if q.times < quietTimes || h.held < h.live+spare || q.wait > 0 {
		return false
	}
	q.wait = int(spareEvery / quietEvery)
	return true
}

package lifecycle

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Bounds of the garbage in the heap of the reports controller. It keeps some state for each resource, so its live heap grows with the
// cluster, and at gcPercent it would take four times that. It gets spareGarbage instead, or leastPercent of a larger live heap.
const (
	spareGarbage = 32 << 20
	leastPercent = 40
	garbageEvery = 2 * time.Second
)

// BoundGarbage bounds the uncollected garbage until ctx is done, unless the environment tunes the collector.
func BoundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := gcPercent
	tick := time.NewTicker(garbageEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(live)
		if now := percentFor(live[0].Value.Uint64()); now != percent {
			percent = now
			debug.SetGCPercent(percent)
		}
	}
}

// percentFor returns how far the heap may grow beyond the live heap before a collection, in steps, since each change triggers a collection.
func percentFor(live uint64) int {
	percent := gcPercent
	for percent > leastPercent && live*uint64(percent)/100 > spareGarbage {
		percent = max(leastPercent, percent*3/4)
	}
	return percent
}

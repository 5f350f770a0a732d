package lifecycle

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The reports controller knows something of each resource, so that its live heap grows with the cluster. At gcPercent it would take
// four times that; it is given spareGarbage instead, and a percentage of leastPercent where the live heap is larger.
const (
	spareGarbage = 32 << 20
	leastPercent = 40
	garbageEvery = 2 * time.Second
)

// BoundGarbage keeps what is not collected yet within bounds until ctx is done, unless the environment tunes the collector.
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

// percentFor is how far the heap may grow beyond what is live before it is collected, in steps: each change collects at once.
func percentFor(live uint64) int {
	percent := gcPercent
	for percent > leastPercent && live*uint64(percent)/100 > spareGarbage {
		percent = max(leastPercent, percent*3/4)
	}
	return percent
}

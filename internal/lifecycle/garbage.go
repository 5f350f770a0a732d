package lifecycle

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"ephor.invalid/ephor/internal/lifecycle/firstgc"
)

// Garbage bounds the uncollected garbage in the heap of a process, in percent of the live heap. While the live heap is small, the garbage
// may grow to Most percent of it. With a larger live heap, it may grow to Spare bytes, but always to at least Least percent.
type Garbage struct {
	Most  int
	Spare uint64
	Least int
}

// The bounds for the controllers. The reports controller holds some state for each resource, so its live heap grows with the cluster, and a
// scan is not urgent. A review of the admission controller costs a tenth less CPU with collections at 500 % than at 300 %. Under load that
// controller holds many requests at once, so the live heap is larger and Spare limits the garbage.
var (
	OtherGarbage     = Garbage{Most: GCPercent, Least: GCPercent}
	ReportsGarbage   = Garbage{Most: GCPercent, Spare: 20 << 20, Least: 40}
	AdmissionGarbage = Garbage{Most: 500, Spare: 48 << 20, Least: 200}
)

// Bound applies the bounds after each collection until ctx is done, once the process has started (StartTime), unless the environment tunes the
// collector.
func (g Garbage) Bound(ctx context.Context) {
	if firstgc.Tuned() {
		return
	}
	started := time.NewTimer(StartTime)
	defer started.Stop()
	select {
	case <-ctx.Done():
		return
	case <-started.C:
	}
	collected := make(chan struct{}, 1)
	afterCollections(ctx, collected)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	percent := startPercent
	for {
		metrics.Read(live)
		if next := g.percent(live[0].Value.Uint64(), percent); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
	}
}

// afterCollections sends to collected after each collection until ctx is done. It needs no timer: a burst of requests doubles the live heap
// within one collection, so a timer would have to be short, and would wake an idle process.
func afterCollections(ctx context.Context, collected chan<- struct{}) {
	// An object without a reference is cleaned up after the next collection. The pointer keeps it apart from other small objects.
	runtime.AddCleanup(&struct{ *Garbage }{}, func(struct{}) {
		if ctx.Err() != nil {
			return
		}
		select {
		case collected <- struct{}{}:
		default:
		}
		afterCollections(ctx, collected)
	}, struct{}{})
}

// percent returns how far the heap may grow beyond the live heap before a collection. It stays as it is now while the bound differs by less than
// an eighth, since each change triggers a collection.
func (g Garbage) percent(live uint64, now int) int {
	next := g.Most
	if live > 0 {
		next = max(g.Least, min(g.Most, int(g.Spare*100/live)))
	}
	if next != g.Most && next != g.Least && max(next, now)*7 < min(next, now)*8 {
		return now
	}
	return next
}

package lifecycle

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"testing"
	"time"
)

// Memory is returned some time after a load, not during one, not for a small amount, and not repeatedly.
func TestQuiet(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name string
		heap func(step int) heap
		want []int // the steps at which memory is returned
	}{
		{"under load", func(i int) heap { return heap{uint64(i) * 50 * mb, 10 * mb, 40 * mb} }, nil},
		{"after a load", func(i int) heap {
			if i < 7 {
				return heap{uint64(min(i, 4)) * 50 * mb, 10 * mb, 40 * mb}
			}
			return heap{200 * mb, 10 * mb, 10 * mb}
		}, []int{6}},
		{"little is spare", func(i int) heap { return heap{0, 10 * mb, 12 * mb} }, nil},
		{"little of a large heap is spare", func(i int) heap { return heap{0, 100 * mb, 120 * mb} }, nil},
		{"a quarter of a large heap is spare", func(i int) heap { return heap{0, 100 * mb, 125 * mb} }, []int{1, 7, 13}},
		{"as much is spare again and again", func(i int) heap { return heap{uint64(i) * mb / 2, 10 * mb, 15 * mb} }, []int{1, 7, 13}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var q quiet
			var got []int
			for i := range 16 {
				if q.due(c.heap(i)) {
					got = append(got, i)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("given back at %v, want %v", got, c.want)
			}
		})
	}
}

// kept holds the allocations of TestReturnMemory, so that they are on the heap.
var kept []byte

// Memory that a load left behind is returned to the operating system.
func TestReturnMemory(t *testing.T) {
	const load = 64 << 20
	kept = make([]byte, load)
	for i := range kept {
		kept[i] = 1
	}
	kept = nil
	runtime.GC()
	tick := make(chan time.Time, 10)
	for range cap(tick) {
		tick <- time.Time{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	returnMemory(ctx, tick, func() { debug.FreeOSMemory(); cancel() })
	if ctx.Err() != context.Canceled {
		t.Fatal("no memory is given back")
	}
	free := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(free)
	if held := free[0].Value.Uint64(); held > load/2 {
		t.Errorf("%d MB of %d MB are still held", held>>20, load>>20)
	}
}

package lifecycle

import (
	"context"
	"runtime"
	"testing"
)

// A small heap is collected rarely, a large one before it holds much more than the live heap.
func TestGarbage(t *testing.T) {
	for _, c := range []struct {
		name   string
		bounds Garbage
		live   uint64
		now    int
		want   int
	}{
		{"reports, nothing", ReportsGarbage, 0, 300, 300},
		{"reports, small", ReportsGarbage, 6 << 20, 300, 300},
		{"reports, a little more", ReportsGarbage, 7 << 20, 300, 300},
		{"reports, more", ReportsGarbage, 8 << 20, 300, 250},
		{"reports, twice", ReportsGarbage, 16 << 20, 250, 125},
		{"reports, large", ReportsGarbage, 1 << 30, 125, 40},
		{"admission, small", AdmissionGarbage, 9 << 20, 300, 500},
		{"admission, a little more", AdmissionGarbage, 10 << 20, 500, 500},
		{"admission, more", AdmissionGarbage, 12 << 20, 500, 400},
		{"admission, under load", AdmissionGarbage, 30 << 20, 400, 200},
		{"admission, after load", AdmissionGarbage, 9 << 20, 200, 500},
		{"admission, large", AdmissionGarbage, 1 << 30, 500, 200},
	} {
		if got := c.bounds.percent(c.live, c.now); got != c.want {
			t.Errorf("%s: %d %%, want %d", c.name, got, c.want)
		}
	}
}

// Each collection is followed by a message, until the context is done.
func TestAfterCollections(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	collected := make(chan struct{}, 1)
	afterCollections(ctx, collected)
	// until collects garbage until there is a message. One collection may come before the object is made that it cleans up.
	until := func(message <-chan struct{}) {
		for {
			runtime.GC()
			select {
			case <-message:
				return
			default:
				runtime.Gosched()
			}
		}
	}
	for range 3 {
		until(collected)
	}
	stop()
	late := 0
	for range 10 {
		another := make(chan struct{})
		runtime.AddCleanup(&struct{ *Garbage }{}, func(c chan struct{}) { close(c) }, another)
		until(another)
		select {
		case <-collected:
			late++
		default:
		}
	}
	if late > 2 { // one that was not read, and one of a cleanup that had begun
		t.Errorf("%d messages after the end", late)
	}
}

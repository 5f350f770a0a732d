package lifecycle

import (
	"testing"
)

// A small heap is collected seldom, a large one before it holds much more than the live heap.
func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 300, 10 << 20: 300, 11 << 20: 225, 20 << 20: 126, 40 << 20: 70, 1 << 30: leastPercent} {
		if got := percentFor(live); got != want {
			t.Errorf("%d bytes: %d %%, want %d", live, got, want)
		}
	}
}

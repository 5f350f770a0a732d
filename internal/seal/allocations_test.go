//go:build !race

package seal

import "testing"

// The race detector makes sync.Pool forget values, so this runs in the part of the gate without it.
func TestAllocations(t *testing.T) {
	s := key(t, 3).Summer()
	if n := testing.AllocsPerRun(100, func() { s.Sum("d", "epoch", "/validate/fail") }); n >= 1 {
		t.Errorf("%v allocations", n)
	}
}

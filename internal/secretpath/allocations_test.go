//go:build !race

package secretpath

import (
	"strings"
	"testing"
)

// The check of a request never allocates.
//
// The race detector makes sync.Pool forget values, so this runs in the part of the gate without it.
func TestAllocations(t *testing.T) {
	c := newClock()
	g := newGuard(c)
	e := NewEpoch(key(t, 1), "first")
	g.Set(e, NewEpoch(key(t, 1), "last"), false)
	for _, path := range []string{e.Path("/validate/fail"), "/validate/fail", "/" + strings.Repeat("0", Size) + "/validate/fail"} {
		if n := testing.AllocsPerRun(200, func() { g.Prove(path) }); n >= 1 {
			t.Errorf("%s: %v allocations", Plain(path), n)
		}
	}
}

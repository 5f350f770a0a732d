package updaterequest

import (
	"context"
	"testing"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
)

// How many UpdateRequests exist is told from the start, and followed until there are none.
func TestCountedFromTheStart(t *testing.T) {
	s := &store{objects: map[string]*kyvernov2.UpdateRequest{"ur-1": {}, "ur-2": {}}}
	w, _, counts := writer(s, 0)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w.Run(ctx)
	if counts.existing != 2 {
		t.Errorf("at the start: %d", counts.existing)
	}
	for _, want := range []int{0, 0} {
		s.delete("ur-1")
		s.delete("ur-2")
		w.recount(t.Context())
		if counts.existing != want {
			t.Errorf("later: %d, want %d", counts.existing, want)
		}
		s.objects["ur-1"] = &kyvernov2.UpdateRequest{} // of another replica: it is counted when we write
	}
}

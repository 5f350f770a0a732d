package enqueue

import (
	"context"
	"testing"

	kyvernov2 "github.com/ephor-dev/ephor/api/kyverno/v2"
)

// The number of UpdateRequests is known from the start, and is updated until there are none.
func TestCountedFromTheStart(t *testing.T) {
	s := &store{objects: map[string]*kyvernov2.UpdateRequest{"ur-1": {}, "ur-2": {}}}
	w, _, counts := writer(s, 0)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	w.Run(ctx)
	if counts.existing != 2 {
		t.Errorf("at the start: %d", counts.existing)
	}
	for _, step := range []struct {
		there []string
		want  int
		why   string
	}{
		{[]string{"ur-1"}, 1, "a controller executes them"},
		{nil, 0, "all are executed"},
		{[]string{"ur-3"}, 0, "no caller waits: the next write counts"},
	} {
		clear(s.objects)
		for _, name := range step.there {
			s.objects[name] = &kyvernov2.UpdateRequest{}
		}
		if w.recount(t.Context()); counts.existing != step.want {
			t.Errorf("%s: %d, want %d", step.why, counts.existing, step.want)
		}
	}
}

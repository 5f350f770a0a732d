package scan

import (
	"context"
	"testing"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
)

// oneShare is a share that this process has as a whole, or not at all.
type oneShare struct{ held bool }

func (s *oneShare) Owns(string) bool { return s.held }
func (s *oneShare) Hold(ctx context.Context, _ string) (context.Context, func(), bool) {
	return ctx, func() {}, s.held
}
func (s *oneShare) Changed() <-chan struct{} { return nil }

// A report that changes while this process has lost its share is written again when the process has its share again.
func TestRequestsWithoutTheShare(t *testing.T) {
	evaluated := 0
	l := (&configMaps{n: 1}).loop(t, func(_ context.Context, in engine.Input) policy.Outcome {
		evaluated++
		return policy.Outcome{Request: in.Request}
	})
	share := &oneShare{held: true}
	l.s.o.Share = share
	sweep := func() {
		t.Helper()
		if _, err := l.sweep(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	sweep()
	share.held = false
	l.again("0")
	share.held = true
	sweep()
	if evaluated != 2 {
		t.Errorf("%d evaluations, want 2", evaluated)
	}
}

package ring

import "context"

// Alone is the share of a controller without other replicas: it always holds every key.
type Alone struct{}

// Owns reports true.
func (Alone) Owns(string) bool { return true }

// Hold returns its context.
func (Alone) Hold(ctx context.Context, _ string) (context.Context, func(), bool) {
	return ctx, func() {}, true
}

// Lapsed reports false.
func (Alone) Lapsed(context.Context) bool { return false }

// Changed is never closed.
func (Alone) Changed() <-chan struct{} { return nil }

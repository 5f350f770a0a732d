package execute

import (
	"context"

	"ephor.invalid/ephor/internal/controller"
)

// Share determines the keys for which this replica works. Two replicas may work for the same key if one of them was suspended for a
// while; therefore late and repeated writes must do no harm.
type Share interface {
	controller.Share
	// Owns reports whether this replica may start work for the key now.
	Owns(key string) bool
	// Lapsed reports whether the time of a Hold has expired.
	Lapsed(held context.Context) bool
}

// elsewhereError means that the work belongs to another replica, or that this replica lost it before it was done.
type elsewhereError struct{ lapsed bool }

func (e elsewhereError) Error() string { return "another replica works for this key" }

// held calls do for a key that this replica holds.
func (w *Worker) held(ctx context.Context, key string, do func(context.Context) error) error {
	held, release, ok := w.Share.Hold(ctx, key)
	if !ok {
		return elsewhereError{}
	}
	defer release()
	err := do(held)
	if ctx.Err() == nil && w.Share.Lapsed(held) {
		return elsewhereError{lapsed: true}
	}
	return err
}

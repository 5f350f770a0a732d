package execute

import (
	"context"
)

// Share determines the keys for which this replica works. Two replicas may work for the same key if one of them was suspended for a
// while; therefore late and repeated writes must do no harm.
type Share interface {
	// Owns reports whether this replica may start work for the key now.
	Owns(key string) bool
	// Hold starts work for the key. ok is false if the replica may not start it. ctx is cancelled if the replica loses the key. The
	// caller calls release when the work is done.
	Hold(ctx context.Context, key string) (held context.Context, release func(), ok bool)
	// Lapsed reports whether the time of a Hold has expired.
	Lapsed(held context.Context) bool
	// Changed returns a channel that is closed when the set of held keys differs from the set at the time of the call.
	Changed() <-chan struct{}
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

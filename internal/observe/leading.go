package observe

import (
	"context"
	"sync/atomic"
)

// leading holds a value that counts only while this replica leads: the next leader reports its own.
type leading[T any] struct{ last atomic.Pointer[term[T]] }

// term is a value with the end of the lease under which it was set.
type term[T any] struct {
	value T
	done  <-chan struct{}
}

// set sets the value. ctx is done when this replica no longer leads.
func (l *leading[T]) set(ctx context.Context, value T) { l.last.Store(&term[T]{value, ctx.Done()}) }

// load returns the value; ok is false if this replica does not lead, or has not set a value.
func (l *leading[T]) load() (value T, ok bool) {
	last := l.last.Load()
	if last == nil {
		return value, false
	}
	select {
	case <-last.done:
		return value, false
	default:
		return last.value, true
	}
}

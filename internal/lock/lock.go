// Package lock has a lock for code that asks the API server while it holds it.
//
//	var l lock.Lock
//	unlock, err := l.Lock(ctx)   // fails when ctx is done first
//
// A sync.Mutex knows no context: while the API server does not answer, all who wait for it wait for each other's requests, one after the other,
// whatever time their own callers have left.
//
// Floor 4: imports nothing of ours.
package lock

import (
	"context"
	"sync"
)

// Lock is held by one goroutine at a time. Its zero value is free.
type Lock struct {
	once sync.Once
	held chan struct{}
}

// Lock waits until the lock is free, or ctx is done.
func (l *Lock) Lock(ctx context.Context) (unlock func(), err error) {
	l.once.Do(func() { l.held = make(chan struct{}, 1) })
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

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

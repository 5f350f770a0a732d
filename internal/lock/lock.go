package lock

import (
	"context"
	"hash/maphash"
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

// Keyed has a lock for each key. Two keys may share one, so a goroutine holds at most one of them. Its zero value is free.
type Keyed struct{ locks [256]Lock }

var seed = maphash.MakeSeed()

// Lock waits until the lock of the key is free, or ctx is done.
func (k *Keyed) Lock(ctx context.Context, key string) (unlock func(), err error) {
	return k.locks[maphash.String(seed, key)%uint64(len(k.locks))].Lock(ctx)
}

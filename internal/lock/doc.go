// Package lock has a lock for code that asks the API server while it holds it.
//
//	var l lock.Lock
//	unlock, err := l.Lock(ctx)        // fails when ctx is done first
//	var k lock.Keyed
//	unlock, err = k.Lock(ctx, "key")  // the same, with a lock for each key
//
// A sync.Mutex knows no context: while the API server does not answer, all who wait for it wait for each other's requests, one after the other,
// whatever time their own callers have left.
//
// It is what a semaphore of golang.org/x/sync with one place would be, but its zero value is ready, also in arrays.
//
// Floor 4: imports nothing of ours.
package lock

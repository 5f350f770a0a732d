package fetch

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Answers holds answers of services by key. Callers at the same time share a query, which goes on when they leave. While a service does not
// answer, its last answer stays in use. All fields but Patience and Usable are needed.
type Answers[K comparable, V any] struct {
	Now func() time.Time
	// Timeout bounds a query, and Retry is the pause after a failure.
	Timeout, Retry time.Duration
	// Patience is how long a caller waits if there is an old answer; 0 for the whole query.
	Patience time.Duration
	// Usable is how long after its query an old answer is used in an outage; 0 for ever.
	Usable time.Duration
	// Entries is the maximum number of keys; those that were not used for the longest time are dropped.
	Entries int

	mu    sync.Mutex
	known map[K]*answer[V]
}

// answer is the last answer for a key, and the state of its queries.
type answer[V any] struct {
	has       bool
	value     V
	at, fresh time.Time // when the answer came, and until when it is used without a new query
	err       error     // of the last query
	failed    time.Time
	used      time.Time
	running   chan struct{} // closed when the current query ends; nil if there is none
}

// GoneError means that what was asked for does not exist any more: an old answer is not used.
type GoneError struct{ Err error }

func (e *GoneError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *GoneError) Unwrap() error { return e.Err }

// Get returns the answer for a key: a fresh one that is known, otherwise that of query, which also returns until when its answer is fresh.
func (a *Answers[K, V]) Get(ctx context.Context, key K, query func(context.Context) (V, time.Time, error)) (none V, err error) {
	a.mu.Lock()
	e, now := a.entry(key), a.Now()
	e.used = now
	switch {
	case e.has && e.err == nil && now.Before(e.fresh), e.err != nil && now.Sub(e.failed) < a.Retry:
		defer a.mu.Unlock()
		return e.last(now, a.Usable)
	}
	if e.running == nil {
		e.running = make(chan struct{})
		go a.runQuery(context.WithoutCancel(ctx), e, query)
	}
	running, old, has := e.running, e.value, e.has && e.usable(now, a.Usable)
	a.mu.Unlock()
	var enough <-chan time.Time
	if has && a.Patience > 0 {
		timer := time.NewTimer(a.Patience)
		defer timer.Stop()
		enough = timer.C
	}
	select {
	case <-running:
		a.mu.Lock()
		defer a.mu.Unlock()
		return e.last(a.Now(), a.Usable)
	case <-enough:
		return old, nil
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (e *answer[V]) usable(now time.Time, limit time.Duration) bool {
	return limit == 0 || now.Sub(e.at) < limit
}

// last returns the last answer; after a failure only one that is usable, and otherwise the error.
func (e *answer[V]) last(now time.Time, limit time.Duration) (none V, err error) {
	if e.has && (e.err == nil || e.usable(now, limit)) {
		return e.value, nil
	}
	return none, e.err
}

// runQuery sends the query.
func (a *Answers[K, V]) runQuery(ctx context.Context, e *answer[V], query func(context.Context) (V, time.Time, error)) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	var fresh time.Time
	value, err := guarded(ctx, func(ctx context.Context) (v V, err error) {
		v, fresh, err = query(ctx)
		return v, err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	close(e.running) // the callers wait for the lock
	e.running, e.err = nil, err
	if err == nil {
		e.has, e.value, e.at, e.fresh = true, value, a.Now(), fresh
		return
	}
	e.failed = a.Now()
	if gone := (*GoneError)(nil); errors.As(err, &gone) {
		var none V
		e.has, e.value = false, none
	}
}

// entry returns the entry for a key. The caller must hold the lock.
func (a *Answers[K, V]) entry(key K) *answer[V] {
	if e := a.known[key]; e != nil {
		return e
	}
	if a.known == nil {
		a.known = map[K]*answer[V]{}
	}
	if len(a.known) >= a.Entries {
		var oldest K
		var used time.Time
		for k, e := range a.known {
			if used.IsZero() || e.used.Before(used) {
				oldest, used = k, e.used
			}
		}
		delete(a.known, oldest)
	}
	e := &answer[V]{}
	a.known[key] = e
	return e
}

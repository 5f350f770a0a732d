package keys

import (
	"context"
	"crypto"
	"errors"
	"sync"
	"time"
)

// Times and limits for the cached answers of key services.
const (
	holds      = time.Hour        // how long an answer is valid
	retryAfter = 30 * time.Second // the pause after a failure
	longest    = 10 * time.Second // the maximum time of a query
	patience   = 2 * time.Second  // how long to wait for a query if there is an old answer
	maxAsked   = 256              // the maximum number of cached references
)

// question is a query to a key service. Namespaced policies may send fewer queries, and have separate answers.
type question struct {
	ref      string
	confined bool
}

// asked caches the answers of key services, and sends each query only once at a time. The last answer stays in use while a service
// does not answer. It is discarded when the service reports that the key does not exist.
type asked struct {
	now     func() time.Time
	mu      sync.Mutex
	answers map[question]*answer
}

type answer struct {
	keys   []crypto.PublicKey // the keys in the last answer
	at     time.Time
	err    error // the error of the last query
	failed time.Time
	used   time.Time
	asking chan struct{} // closed when the current query is answered; nil if there is none
}

// goneError means that, according to its service, the key no longer exists.
type goneError struct{ error }

func (a *asked) get(ctx context.Context, q question, fetch func(context.Context) ([]crypto.PublicKey, error)) ([]crypto.PublicKey, error) {
	a.mu.Lock()
	e, now := a.entry(q), a.now()
	e.used = now
	switch {
	case e.keys != nil && now.Sub(e.at) < holds:
		defer a.mu.Unlock()
		return e.keys, nil
	case e.err != nil && now.Sub(e.failed) < retryAfter:
		defer a.mu.Unlock()
		return e.answer()
	}
	if e.asking == nil {
		e.asking = make(chan struct{})
		go a.ask(context.WithoutCancel(ctx), e, fetch) // other callers wait for the answer, too
	}
	asking, old := e.asking, e.keys
	a.mu.Unlock()

	var enough <-chan time.Time
	if old != nil {
		t := time.NewTimer(patience)
		defer t.Stop()
		enough = t.C
	}
	select {
	case <-asking:
		a.mu.Lock()
		defer a.mu.Unlock()
		return e.answer()
	case <-enough:
		return old, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answer returns the last answer. It returns the error only if there is no answer.
func (e *answer) answer() ([]crypto.PublicKey, error) {
	if e.keys != nil {
		return e.keys, nil
	}
	return nil, e.err
}

func (a *asked) ask(ctx context.Context, e *answer, fetch func(context.Context) ([]crypto.PublicKey, error)) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	keys, err := fetch(ctx)
	if err == nil && len(keys) == 0 {
		err = goneError{errors.New("there is no enabled version of the key")}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	e.err = err
	if err == nil {
		e.keys, e.at = keys, a.now()
	} else {
		e.failed = a.now()
		if gone := (goneError{}); errors.As(err, &gone) {
			e.keys = nil
		}
	}
	close(e.asking)
	e.asking = nil
}

// entry returns the cache entry for a query. The caller must hold the lock.
func (a *asked) entry(q question) *answer {
	if e := a.answers[q]; e != nil {
		return e
	}
	if a.answers == nil {
		a.answers = map[question]*answer{}
	}
	if len(a.answers) >= maxAsked {
		var oldest question
		var used time.Time
		for q, e := range a.answers {
			if used.IsZero() || e.used.Before(used) {
				oldest, used = q, e.used
			}
		}
		delete(a.answers, oldest)
	}
	e := &answer{}
	a.answers[q] = e
	return e
}

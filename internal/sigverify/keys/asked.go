package keys

import (
	"context"
	"crypto"
	"errors"
	"sync"
	"time"
)

// Times of answers of key services.
const (
	holds      = time.Hour        // an answer counts for so long
	retryAfter = 30 * time.Second // after a failure
	longest    = 10 * time.Second // of a question
	patience   = 2 * time.Second  // with a new question while an old answer is there
	maxAsked   = 256              // references that are remembered
)

// question is what a key service is asked. Namespaced policies may ask less, and have answers of their own.
type question struct {
	ref      string
	confined bool
}

// asked remembers what key services answered, and asks each question once at a time. The last answer counts on while a service does
// not answer; once the service says that there is no such key, it does not.
type asked struct {
	now     func() time.Time
	mu      sync.Mutex
	answers map[question]*answer
}

type answer struct {
	keys   []crypto.PublicKey // the last ones
	at     time.Time
	err    error // of the last question
	failed time.Time
	used   time.Time
	asking chan struct{} // closed when the question is answered; nil when there is none
}

// goneError says that the key is not there any more, by the word of its service.
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
		go a.ask(context.WithoutCancel(ctx), e, fetch) // others wait for the answer, too
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

// answer is the last one; the error only where there is none.
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

// entry is the place of an answer. The caller holds the lock.
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

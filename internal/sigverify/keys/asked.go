package keys

import (
	"context"
	"crypto"
	"errors"
	"time"

	"ephor.invalid/ephor/internal/fetch"
)

// Times and limits for the cached answers of key services.
const (
	holds      = time.Hour        // how long an answer is valid
	lastAnswer = 24 * time.Hour   // how long after the query it is used while the service gives no other
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

// asked caches the answers of key services. The last answer stays in use for a day while a service does not answer, or refuses to. It is
// discarded when the service reports that the key does not exist.
type asked struct {
	fetch.Answers[question, []crypto.PublicKey]
}

func newAsked(now func() time.Time) *asked {
	return &asked{fetch.Answers[question, []crypto.PublicKey]{Now: now, Timeout: longest, Retry: retryAfter, Patience: patience, Usable: lastAnswer, Entries: maxAsked}}
}

func (a *asked) get(ctx context.Context, q question, ask func(context.Context) ([]crypto.PublicKey, error)) ([]crypto.PublicKey, error) {
	return a.Get(ctx, q, func(ctx context.Context) ([]crypto.PublicKey, time.Time, error) {
		keys, err := ask(ctx)
		if err == nil && len(keys) == 0 {
			err = &fetch.GoneError{Err: errors.New("there is no enabled version of the key")}
		}
		return keys, a.Now().Add(holds), err
	})
}

package controller

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// queue is client-go's queue for one row. In addition, a change does not shorten the pause after a failure: a key that fails because of what
// changes all the time would be retried all the time.
type queue struct {
	workqueue.TypedDelayingInterface[string]
	pauses  workqueue.TypedRateLimiter[string]
	collect time.Duration // how long changes of a key are collected

	mu   sync.Mutex
	keys map[string]keyState // only those that are being reconciled, or wait for a retry
}

type keyState struct {
	waits   bool // for its retry
	changed bool // while it was being reconciled
}

func newQueue(collect time.Duration) *queue {
	return &queue{
		TypedDelayingInterface: workqueue.NewTypedDelayingQueue[string](), // without a name, and so without metrics of its own
		pauses:                 workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstPause, longestPause),
		collect:                collect,
		keys:                   map[string]keyState{},
	}
}

// add adds a key, or notes the change of a key that is reconciled anyway.
func (q *queue) add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch s, busy := q.keys[key]; {
	case !busy:
		q.AddAfter(key, q.collect)
	case !s.waits:
		q.keys[key] = keyState{changed: true}
	}
}

// get waits for a key. Its state is read after this, so that earlier changes need no further round.
func (q *queue) get() (key string, ended bool) {
	key, ended = q.Get()
	if !ended {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.keys[key] = keyState{}
	}
	return key, ended
}

// done ends a successful round; the key comes again after a change, or after that time if it is not 0.
func (q *queue) done(key string, again time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	changed := q.keys[key].changed
	delete(q.keys, key)
	q.pauses.Forget(key)
	switch {
	case changed:
		q.AddAfter(key, q.collect)
	case again > 0:
		q.AddAfter(key, again)
	}
	q.Done(key)
}

// failed ends a failed round, and returns the pause before the next one.
func (q *queue) failed(key string) (pause time.Duration, failures int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.keys[key] = keyState{waits: true}
	pause = q.pauses.When(key)
	q.AddAfter(key, pause)
	q.Done(key)
	return pause, q.pauses.NumRequeues(key)
}

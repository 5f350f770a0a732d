package globalctx

import (
	"fmt"
	"sync"
)

// capacity counts the bytes of all listed resources of a Store, up to max.
type capacity struct {
	mu        sync.Mutex
	used, max int
	freed     chan struct{} // closed when an entry releases all its resources; nil if none waits for that
}

// add counts n more bytes, or fewer if n is negative. If there is no room, it returns an error and counts nothing.
func (w *capacity) add(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 && w.used+n > w.max {
		return &tooLargeError{w.max}
	}
	w.used += n
	return nil
}

// free releases n bytes, all that an entry had, and wakes those that wait for room.
func (w *capacity) free(n int) {
	if n == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used -= n
	if w.freed != nil {
		close(w.freed)
		w.freed = nil
	}
}

// later returns a channel that is closed when an entry releases its resources.
func (w *capacity) later() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.freed == nil {
		w.freed = make(chan struct{})
	}
	return w.freed
}

type tooLargeError struct{ max int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the resources of all entries would take more than %d bytes, the limit of --maxGlobalContextBytes", e.max)
}

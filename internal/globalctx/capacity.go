package globalctx

import (
	"fmt"
	"sync"
)

// capacity counts the bytes of all listed resources of a Store, up to max.
type capacity struct {
	mu        sync.Mutex
	used, max int
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

type tooLargeError struct{ max int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the resources of all entries would take more than %d bytes, the limit of --maxGlobalContextBytes", e.max)
}

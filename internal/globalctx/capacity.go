package globalctx

import (
	"fmt"
	"sync"
)

// weight is what all listed resources of a Store take together.
type weight struct {
	mu        sync.Mutex
	used, max int
}

// add counts n more bytes, or fewer when n is negative. More than there is room for are not counted, and an error.
func (w *weight) add(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n > 0 && w.used+n > w.max {
		return &tooHeavyError{w.max}
	}
	w.used += n
	return nil
}

type tooHeavyError struct{ max int }

func (e *tooHeavyError) Error() string {
	return fmt.Sprintf("the resources of all entries would take more than %d bytes, the limit of --maxGlobalContextBytes", e.max)
}

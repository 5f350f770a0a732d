package controller

import (
	"context"
	"sync"
)

// Set is a Source whose parts come and go while its row runs: one part for each kind that a policy names, for example. Its zero value is ready.
type Set[K comparable] struct {
	running sync.WaitGroup

	mu    sync.Mutex
	ctx   context.Context // of the row; nil while it does not run
	parts map[K]context.CancelFunc
}

// Start implements Source.
func (s *Set[K]) Start(ctx context.Context, _ func(key string)) func() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.parts = ctx, map[K]context.CancelFunc{}
	return func() error {
		<-ctx.Done()
		s.mu.Lock()
		s.ctx = nil
		s.mu.Unlock()
		s.running.Wait()
		return nil
	}
}

// Want starts the parts that do not run yet, each with a context that ends with the row, and ends those that are not in want any more. The
// parts of an earlier run of the row have ended.
func (s *Set[K]) Want(want map[K]func(context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return
	}
	for k, end := range s.parts {
		if want[k] == nil {
			end()
			delete(s.parts, k)
		}
	}
	for k, run := range want {
		if s.parts[k] == nil {
			ctx, end := context.WithCancel(s.ctx)
			s.parts[k] = end
			s.running.Go(func() { run(ctx) })
		}
	}
}

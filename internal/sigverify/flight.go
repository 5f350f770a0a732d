package sigverify

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// memo is a value that is computed once, on first use. Concurrent callers wait for it. An error is not kept. The computation stops when no
// caller waits any more.
type memo[T any] struct {
	mu      sync.Mutex
	made    bool
	value   T
	running *flight[T]
}

type flight[T any] struct {
	done    chan struct{}
	waiting int
	cancel  context.CancelFunc
	value   T
	err     error
}

// get returns the value, which do computes.
func (m *memo[T]) get(ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	m.mu.Lock()
	if m.made {
		defer m.mu.Unlock()
		return m.value, nil
	}
	f := m.running
	if f == nil {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		f = &flight[T]{done: make(chan struct{}), cancel: cancel}
		m.running = f
		go m.run(own, f, do)
	}
	f.waiting++
	m.mu.Unlock()
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		m.mu.Lock()
		if f.waiting--; f.waiting == 0 {
			f.cancel()
			if m.running == f {
				m.running = nil // the next caller starts again
			}
		}
		m.mu.Unlock()
		var none T
		return none, ctx.Err()
	}
}

// run computes the value. A panic caused by external data results in an error and does not end the process.
func (m *memo[T]) run(ctx context.Context, f *flight[T], do func(context.Context) (T, error)) {
	defer func() {
		if p := recover(); p != nil {
			f.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		m.mu.Lock()
		if m.running == f {
			if m.running = nil; f.err == nil {
				m.made, m.value = true, f.value
			}
		}
		m.mu.Unlock()
		close(f.done)
		f.cancel()
	}()
	f.value, f.err = do(ctx)
}

// group holds memos by key. If keep is set, they stay; otherwise a value is only shared among the callers during its computation.
type group[T any] struct {
	keep  bool
	mu    sync.Mutex
	memos map[string]*shared[T]
}

type shared[T any] struct {
	memo[T]
	users int
}

// get returns the value for the key, which do computes.
func (g *group[T]) get(ctx context.Context, key string, do func(context.Context) (T, error)) (T, error) {
	g.mu.Lock()
	if g.memos == nil {
		g.memos = map[string]*shared[T]{}
	}
	s := g.memos[key]
	if s == nil {
		s = &shared[T]{}
		g.memos[key] = s
	}
	s.users++
	g.mu.Unlock()
	value, err := s.get(ctx, do)
	g.mu.Lock()
	if s.users--; s.users == 0 && (!g.keep || err != nil) {
		delete(g.memos, key)
	}
	g.mu.Unlock()
	return value, err
}

package fetch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// Once is a value that is loaded once, on first use. Callers at the same time share the load, which ends when none of them waits any more. An
// error is not kept. Its zero value is ready.
type Once[V any] struct {
	mu      sync.Mutex
	loaded  bool
	value   V
	running *load[V]
}

// load is a running load, with its result once done is closed.
type load[V any] struct {
	done    chan struct{}
	waiting int
	cancel  context.CancelFunc
	value   V
	err     error
}

// Get returns the value, which do loads.
func (o *Once[V]) Get(ctx context.Context, do func(context.Context) (V, error)) (V, error) {
	o.mu.Lock()
	if o.loaded {
		defer o.mu.Unlock()
		return o.value, nil
	}
	l := o.running
	if l == nil {
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		l = &load[V]{done: make(chan struct{}), cancel: cancel}
		o.running = l
		go o.run(own, l, do)
	}
	l.waiting++
	o.mu.Unlock()
	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
		o.mu.Lock()
		if l.waiting--; l.waiting == 0 {
			l.cancel()
			if o.running == l {
				o.running = nil // the next caller starts again
			}
		}
		o.mu.Unlock()
		var none V
		return none, ctx.Err()
	}
}

func (o *Once[V]) run(ctx context.Context, l *load[V], do func(context.Context) (V, error)) {
	defer l.cancel()
	defer close(l.done)
	l.value, l.err = guarded(ctx, do)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.running == l {
		if o.running = nil; l.err == nil {
			o.loaded, o.value = true, l.value
		}
	}
}

// guarded converts a panic to an error: data from outside may cause one, and must not end the process.
func guarded[V any](ctx context.Context, do func(context.Context) (V, error)) (v V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return do(ctx)
}

// Group holds values by key, each like a Once. If Keep is set, they stay; otherwise a value is only shared among the callers during its load.
// Its zero value is ready.
type Group[K comparable, V any] struct {
	Keep bool

	mu     sync.Mutex
	values map[K]*shared[V]
}

type shared[V any] struct {
	Once[V]
	users int
}

// Get returns the value for the key, which do loads.
func (g *Group[K, V]) Get(ctx context.Context, key K, do func(context.Context) (V, error)) (V, error) {
	g.mu.Lock()
	if g.values == nil {
		g.values = map[K]*shared[V]{}
	}
	s := g.values[key]
	if s == nil {
		s = &shared[V]{}
		g.values[key] = s
	}
	s.users++
	g.mu.Unlock()
	value, err := s.Get(ctx, do)
	g.mu.Lock()
	defer g.mu.Unlock()
	if s.users--; s.users == 0 && (!g.Keep || err != nil) {
		delete(g.values, key)
	}
	return value, err
}

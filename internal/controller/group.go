package controller

import (
	"context"
	"log/slog"
	"sync"
)

// Group is a Source that consists of sources which come and go, such as one for each resource that the API server serves. Its zero value is
// ready.
type Group[K comparable] struct {
	mu      sync.Mutex
	ctx     context.Context // nil while the row does not run
	add     func(key string)
	sources map[K]*member
	running sync.WaitGroup
}

type member struct {
	source Source
	stop   context.CancelFunc // nil while the source does not run
}

// Start implements Source.
func (g *Group[K]) Start(ctx context.Context, add func(key string)) func() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.add = ctx, add
	for _, m := range g.sources {
		g.start(m)
	}
	return func() error {
		<-ctx.Done()
		g.mu.Lock()
		g.ctx = nil
		for _, m := range g.sources {
			m.end()
		}
		g.mu.Unlock()
		g.running.Wait()
		return nil
	}
}

// Set starts the sources that are new, and ends those that are missing. A source that goes on need not be equal to the earlier one.
func (g *Group[K]) Set(want map[K]Source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for k, m := range g.sources {
		if want[k] == nil {
			m.end()
			delete(g.sources, k)
		}
	}
	if g.sources == nil {
		g.sources = map[K]*member{}
	}
	for k, s := range want {
		if g.sources[k] == nil {
			g.sources[k] = &member{source: s}
			g.start(g.sources[k])
		}
	}
}

// start starts a source if the row runs. The caller holds the lock.
func (g *Group[K]) start(m *member) {
	if g.ctx == nil {
		return
	}
	ctx, stop := context.WithCancel(g.ctx)
	m.stop = stop
	if run := m.source.Start(ctx, g.add); run != nil {
		g.running.Go(func() { supervise(ctx, "source", slog.Default(), run) })
	}
}

func (m *member) end() {
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

package lifecycle

import (
	"context"
	"errors"
	"sync"
)

// Phases are the steps of a process; they begin and end in order. The process serves from the start, fills its caches and then works. On
// shutdown it first ends the lease and the tasks, then open requests, then pending writes, and finally the cache.
type Phases struct {
	// Cache is the manager's Start. It runs longer than the context, since the last phases still read from it.
	Cache func(context.Context) error
	// Build creates the components that need the cache. They run until the context of the cache is done.
	Build func(context.Context) error
	// Serve answers requests until its context is done, and finishes open requests after that.
	Serve func(context.Context) error
	// Fill waits until the caches are synced.
	Fill func(context.Context) error
	// Work begins when the caches are synced, and returns when its context is done. It starts parallel work through beside.
	Work func(ctx context.Context, beside func(func())) error
	// Last are functions that run until Serve and Work have ended, since those may still produce something to write.
	Last []func(context.Context)
}

// Run runs all phases, and returns after they have ended: because ctx is done, or because a phase has ended too early.
func (l *Phases) Run(ctx context.Context) (err error) {
	cacheCtx, stopCache := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCache()
	cacheDone := make(chan error, 1)
	go func() { cacheDone <- l.Cache(cacheCtx) }()
	if err := l.Build(cacheCtx); err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	lastCtx, end := context.WithCancel(context.WithoutCancel(run))
	defer end()
	failures := make(chan error, 2)
	var first, last sync.WaitGroup
	first.Go(func() {
		failures <- l.Serve(run)
		stop()
	})
	first.Go(func() {
		err := l.Fill(run)
		if err == nil {
			err = l.Work(run, first.Go)
		}
		if run.Err() == nil {
			failures <- err
			stop()
		}
	})
	for _, f := range l.Last {
		last.Go(func() { f(lastCtx) })
	}
	select {
	case err = <-cacheDone:
		stop()
	case <-run.Done():
	}
	first.Wait()
	end()
	last.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}

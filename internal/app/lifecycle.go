package app

import (
	"context"
	"errors"
	"sync"
)

// lifecycle is the order in which a controller begins and ends: it answers from the start, fills its caches, does its work,
// and when it is stopped finishes in order: lease and tasks, then open requests, what they still have to write, and the
// cache last.
type lifecycle struct {
	// cache is the manager's Start. It outlives the context: what is finished at the end still asks it.
	cache func(context.Context) error
	// build makes what needs the cache. What it starts goes on until the context of the cache is done.
	build func(context.Context) error
	// serve answers requests until its context is done, and those that are open after that.
	serve func(context.Context) error
	// fill waits until the caches hold everything that exists.
	fill func(context.Context) error
	// work begins when the caches are filled, and returns when its context is done. What goes on beside it is started
	// through beside.
	work func(ctx context.Context, beside func(func())) error
	// last go on until serve and work have ended, since those may still give them something to write.
	last []func(context.Context)
}

// run returns when ctx is done, or something ended that must not, and everything was finished.
func (l *lifecycle) run(ctx context.Context) (err error) {
	cacheCtx, stopCache := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCache()
	cacheDone := make(chan error, 1)
	go func() { cacheDone <- l.cache(cacheCtx) }()
	if err := l.build(cacheCtx); err != nil {
		return err
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	lastCtx, end := context.WithCancel(context.WithoutCancel(run))
	defer end()
	failures := make(chan error, 2)
	var first, last sync.WaitGroup
	first.Go(func() {
		failures <- l.serve(run)
		stop()
	})
	first.Go(func() {
		err := l.fill(run)
		if err == nil {
			err = l.work(run, first.Go)
		}
		if run.Err() == nil {
			failures <- err
			stop()
		}
	})
	for _, f := range l.last {
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

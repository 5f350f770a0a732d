package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// Process is what one process runs. Its parts begin and end in order: it serves from the start, fills its caches and then runs its rows. On
// shutdown it first ends the rows and the lease, then open requests, then pending writes, and finally the cache.
type Process struct {
	// Cache is the manager's Start. It runs longer than the context, since the last parts still read from it.
	Cache func(context.Context) error
	// Build creates the components that need the cache. They run until the context of the cache is done.
	Build func(context.Context) error
	// First returns rows that run from before the caches are filled until they end: those whose data filling waits for. nil for none.
	First func() []Row
	// Serve answers requests until its context is done, and finishes open requests after that.
	Serve func(context.Context) error
	// Fill waits until the caches are synced.
	Fill func(context.Context) error
	// Rows returns the rows. It is called when the caches are synced.
	Rows func(context.Context) ([]Row, error)
	// Election elects the replica that runs the rows of the owner Leader.
	Election *Election
	// After is called when the rows have ended; nil for nothing. The context is already done.
	After func(context.Context)
	// Last are functions that run until everything else has ended, since that may still produce something to write.
	Last []func(context.Context)

	Observer Observer // nil for none
	Log      *slog.Logger
}

// Run runs the process, and returns after all parts have ended: because ctx is done, or because a part has ended too early.
func (p *Process) Run(ctx context.Context) (err error) {
	var early sync.WaitGroup
	defer early.Wait()
	cacheCtx, stopCache := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCache()
	cacheDone := make(chan error, 1)
	go func() { cacheDone <- p.Cache(cacheCtx) }()
	if err := p.Build(cacheCtx); err != nil {
		return err
	}
	if p.First != nil {
		early.Go(func() { p.run(cacheCtx, p.First()) })
	}
	run, stop := context.WithCancel(ctx)
	defer stop()
	lastCtx, end := context.WithCancel(context.WithoutCancel(run))
	defer end()
	failures := make(chan error, 2)
	var first, last sync.WaitGroup
	first.Go(func() {
		failures <- p.Serve(run)
		stop()
	})
	first.Go(func() {
		err := p.Fill(run)
		if err == nil {
			err = p.work(run)
		}
		if run.Err() == nil {
			failures <- err
			stop()
		}
	})
	for _, f := range p.Last {
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

// work runs the rows until ctx is done.
func (p *Process) work(ctx context.Context) error {
	rows, err := p.Rows(ctx)
	if err != nil {
		return err
	}
	if p.After != nil {
		defer p.After(ctx)
	}
	var every, leader []Row
	for _, r := range rows {
		if p.Observer != nil && r.Reconcile != nil {
			p.Observer.Controller(r.Name)
		}
		if r.Owner.leader {
			leader = append(leader, r)
		} else {
			every = append(every, r)
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { p.run(ctx, every) })
	if p.Election == nil {
		<-ctx.Done()
		return nil
	}
	return p.Election.Run(ctx, func(ctx context.Context) { p.run(ctx, leader) })
}

// run runs rows until ctx is done and all of them have ended.
func (p *Process) run(ctx context.Context, rows []Row) { RunRows(ctx, rows, p.Log, p.Observer) }

package controller

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Row is one controller. It reconciles keys: at its start, after each change that a source reports, and when their time has come.
type Row struct {
	// Name is the name in logs and metrics.
	Name string
	// Owner decides in which replicas the row runs, and with which keys. The zero value is EveryReplica.
	Owner Owner
	// Sources add keys.
	Sources []Source
	// Keys returns all keys that exist at present: those with which the row begins, and to which it returns when the share of this replica
	// changes. Without it, the row has one key, which is empty.
	Keys iter.Seq[string]
	// Reconcile brings the state of one key in line with what is wanted, and returns the time until the key is reconciled again without a
	// change; 0 for never. An error, or a panic, is retried after a pause that grows. It may be nil: then the row has sources only.
	Reconcile func(ctx context.Context, key string) (again time.Duration, err error)
	// Collect is how long the changes of a key are collected before it is reconciled; 0 for not at all.
	Collect time.Duration
	// Workers is the number of keys that are reconciled at the same time; 0 for one. A key is never reconciled twice at the same time.
	Workers int
}

// Singleton returns a Reconcile for a row whose only key is empty.
func Singleton(once func(context.Context) (time.Duration, error)) func(context.Context, string) (time.Duration, error) {
	return func(ctx context.Context, _ string) (time.Duration, error) { return once(ctx) }
}

// Observer counts what rows do (observe.Metrics).
type Observer interface {
	// Controller announces a row.
	Controller(name string)
	// Reconciled counts a key that was reconciled, and Requeued one that has failed so many times and is retried.
	Reconciled(name string)
	Requeued(name string, failures int)
}

type unobserved struct{}

func (unobserved) Controller(string)    {}
func (unobserved) Reconciled(string)    {}
func (unobserved) Requeued(string, int) {}

// RunRows runs rows until ctx is done and all of them have ended. observer may be nil.
func RunRows(ctx context.Context, rows []Row, log *slog.Logger, observer Observer) {
	if observer == nil {
		observer = unobserved{}
	}
	var running sync.WaitGroup
	for i := range rows {
		running.Go(func() { rows[i].run(ctx, log, observer) })
	}
	running.Wait()
}

// run runs the row until ctx is done and everything that it started has ended.
func (r *Row) run(ctx context.Context, log *slog.Logger, observer Observer) {
	var running sync.WaitGroup
	defer running.Wait()
	start := func(add func(key string)) {
		for _, s := range r.Sources {
			if run := s.Start(ctx, add); run != nil {
				running.Go(func() { supervise(ctx, r.Name, log, run) })
			}
		}
	}
	if r.Reconcile == nil {
		start(func(string) {})
		return
	}
	q := newQueue(r.Collect)
	defer q.ShutDown()
	start(q.add)
	running.Go(func() { r.begin(ctx, q) })
	for range max(1, r.Workers) {
		running.Go(func() {
			for r.next(ctx, q, log, observer) {
			}
		})
	}
	<-ctx.Done()
}

// begin adds all keys, and adds them again whenever the share of this replica changes.
func (r *Row) begin(ctx context.Context, q *queue) {
	for ctx.Err() == nil {
		var changed <-chan struct{}
		if r.Owner.share != nil {
			changed = r.Owner.share.Changed()
		}
		if r.Keys == nil {
			q.add("")
		} else {
			for key := range r.Keys {
				q.add(key)
			}
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// next reconciles one key, and reports whether there may be another one.
func (r *Row) next(ctx context.Context, q *queue, log *slog.Logger, observer Observer) bool {
	key, ended := q.get()
	if ended || ctx.Err() != nil {
		return false
	}
	held, release, ok := r.Owner.hold(ctx, key)
	if !ok {
		q.done(key, 0) // another replica has the key
		return true
	}
	defer release()
	again, err := r.once(held, key)
	switch {
	case ctx.Err() != nil:
		return false
	case held.Err() != nil: // the key was lost meanwhile; it is added again when this replica has it again
		q.done(key, 0)
		return true
	case err == nil:
		observer.Reconciled(r.Name)
		q.done(key, again)
		return true
	}
	pause, failures := q.failed(key)
	observer.Reconciled(r.Name)
	observer.Requeued(r.Name, failures)
	at := []any{"controller", r.Name, "in", pause, "error", err}
	if key != "" {
		at = append(at, "key", key)
	}
	log.Error("controller failed, will try again", at...)
	return true
}

// once turns a panic into an error, so that a mistake in one row does not stop admission.
func (r *Row) once(ctx context.Context, key string) (again time.Duration, err error) {
	defer recovered(&err)
	return r.Reconcile(ctx, key)
}

// recovered turns a panic into an error.
func recovered(err *error) {
	if v := recover(); v != nil {
		*err = &panicked{v, debug.Stack()}
	}
}

// panicked is the error of a panic.
type panicked struct {
	value any
	stack []byte
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// supervise calls a function of a source until it returns without an error.
func supervise(ctx context.Context, name string, log *slog.Logger, run func() error) {
	pause := Pause{}
	for ctx.Err() == nil {
		began := time.Now()
		err := func() (err error) {
			defer recovered(&err)
			return run()
		}()
		if err == nil || ctx.Err() != nil {
			return
		}
		pause.Lasted(began)
		wait := pause.Next()
		log.Error("controller failed, will try again", "controller", name, "in", wait, "error", err)
		Sleep(ctx, wait)
	}
}

package scan

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ephor.invalid/ephor/internal/controller"
)

// pageSize is the number of objects of a kind that are in memory at once.
const pageSize = 100

// The pause after a failed round, and the pause for a kind that cannot be listed.
const (
	firstPause     = time.Second
	longestPause   = time.Minute
	unlistablePoll = 5 * time.Minute
)

// loop scans one kind.
type loop struct {
	s   *Scanner
	set atomic.Pointer[set]

	mu    sync.Mutex
	stale bool               // all objects must be checked again
	end   context.CancelFunc // ends the current watch or pause; nil during a sweep

	known    sync.Mutex
	objects  map[string]*object // by UID
	sweeps   uint32
	sweeping bool                        // changed objects wait for the end of the sweep
	looking  sync.WaitGroup              // the evaluations of changed objects, for which a sweep waits
	failing  map[string]controller.Pause // by UID: the pauses of objects whose last evaluation failed

	watches   controller.Pause // between watches that end at once
	evaluated atomic.Bool      // all objects were evaluated once
	// unlistable is the reason why the kind cannot be listed; nil if it can.
	unlistable atomic.Pointer[string]
}

// object is the state that is stored for a resource.
type object struct {
	namespace, name string
	// hash is the hash of the evaluated content, meta that of the metadata that a watch shows.
	hash, meta uint64
	revision   uint64
	sweep      uint32 // the last sweep that has seen it
	asked      uint32 // how often another evaluation was requested
}

func newLoop(s *Scanner) *loop {
	return &loop{s: s, watches: controller.Pause{First: firstPause, Longest: longestPause}, objects: map[string]*object{}, failing: map[string]controller.Pause{}}
}

// run scans the kind until ctx is done: it checks all objects, follows changes, and checks all objects again when the policies or the share
// change or the interval is over.
func (l *loop) run(ctx context.Context) {
	retries := controller.Pause{First: firstPause, Longest: longestPause}
	absences := controller.Pause{First: firstPause, Longest: unlistablePoll}
	var due time.Time // when the next round evaluates all objects, changed or not
	for ctx.Err() == nil {
		l.mu.Lock()
		l.stale, l.end = false, nil // a change during the round causes another round
		l.mu.Unlock()
		all := due.IsZero() || !l.s.o.Now().Before(due)
		if all {
			due = l.s.o.Now().Add(l.s.o.Interval)
		}
		version, err := l.sweep(ctx, all)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && unlistable(err):
			due = time.Time{}
			l.evaluated.Store(false)
			l.name(err)
			wait := unlistablePoll
			if apierrors.IsNotFound(err) { // a definition that was deleted may be made again before the list of served kinds is read
				wait = absences.Next()
			}
			l.until(ctx, wait, func(ctx context.Context) { <-ctx.Done() })
			continue
		case err != nil:
			due = time.Time{}
			pause := retries.Next()
			l.s.o.Observer.Requeued(Name, 1)
			l.s.o.Log.Warn("scan failed, will try again", "kind", l.set.Load().resource.GVK().String(), "in", pause, "error", err)
			controller.Sleep(ctx, pause)
			continue
		}
		retries = controller.Pause{First: firstPause, Longest: longestPause}
		absences = controller.Pause{First: firstPause, Longest: unlistablePoll}
		l.setUnlistable(nil)
		l.evaluated.Store(true)
		l.until(ctx, due.Sub(l.s.o.Now()), func(ctx context.Context) { l.watch(ctx, version) })
	}
}

// until calls f with a context that is done after that time, or when all objects must be checked again.
func (l *loop) until(ctx context.Context, after time.Duration, f func(context.Context)) {
	ctx, end := context.WithTimeout(ctx, after)
	defer end()
	l.mu.Lock()
	l.end = end
	stale := l.stale
	l.mu.Unlock()
	if !stale {
		f(ctx)
	}
}

// poke makes the loop check all objects again.
func (l *loop) poke() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stale = true
	if l.end != nil {
		l.end()
	}
}

// name reports once that the kind cannot be scanned.
func (l *loop) name(err error) {
	named := l.unlistable.Load() != nil
	l.setUnlistable(err)
	if named {
		return
	}
	s := l.set.Load()
	l.s.o.Log.Warn("kind cannot be scanned", "kind", s.resource.GVK().String(), "error", err)
	if l.s.o.Unlistable != nil {
		l.s.o.Unlistable(s.programs, s.resource.GVK(), err)
	}
}

// sweep checks all objects, page by page, and returns the version of the list.
func (l *loop) sweep(ctx context.Context, all bool) (string, error) {
	l.known.Lock()
	l.sweeping = true
	l.sweeps++
	l.known.Unlock()
	l.looking.Wait()
	defer func() {
		l.known.Lock()
		defer l.known.Unlock()
		l.sweeping = false
	}()
	began := l.set.Load()
	read := func(ctx context.Context, o metav1.ListOptions) (*page, error) {
		return list(ctx, l.s.o.Objects, began.resource, o)
	}
	// After a list that outlived its token, the watch from the first version fails, so that what changed meanwhile is found by another sweep.
	version, err := controller.Pages(ctx, metav1.ListOptions{Limit: pageSize}, read, func(p *page) error {
		l.each(p.items, func(i *item) {
			if l.evaluateIfChanged(ctx, i, all) {
				l.s.changed.Add(l.key(i.namespace, i.name, i.uid))
			}
		})
		return ctx.Err()
	})
	if err != nil {
		return "", err
	}
	l.known.Lock()
	defer l.known.Unlock()
	maps.DeleteFunc(l.objects, func(_ string, o *object) bool { return o.sweep != l.sweeps })
	maps.DeleteFunc(l.failing, func(uid string, _ controller.Pause) bool { return l.objects[uid] == nil })
	return version, nil
}

// each calls f for the objects of a page, in parallel up to the limit.
func (l *loop) each(items []*item, f func(*item)) {
	var running sync.WaitGroup
	for _, i := range items {
		l.s.objects <- struct{}{}
		running.Go(func() {
			defer func() { <-l.s.objects }()
			f(i)
		})
	}
	running.Wait()
}

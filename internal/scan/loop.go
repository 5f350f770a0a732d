package scan

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

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

// The pauses before an object is evaluated again that could not be read, evaluated or reported.
const (
	failedPause        = 10 * time.Second
	longestFailedPause = 5 * time.Minute
)

// loop scans one kind.
type loop struct {
	s    *Scanner
	set  atomic.Pointer[set]
	wake chan struct{}

	mu      sync.Mutex
	orders  []pending // evaluations that other goroutines requested
	surplus bool      // there were more than maxOrders

	shared <-chan struct{} // closed when the keys of this process may have changed since the last sweep; used by run

	objects   map[string]*object // by UID; used by run and, under known, by its workers
	known     sync.Mutex
	pending   map[string]pending // by UID; known guards it
	soonest   time.Time          // when the first of them is due, or earlier; known guards it
	sweeps    uint64
	watches   controller.Pause // between watches that end at once
	evaluated atomic.Bool      // all objects were evaluated once
	// unlistable is the reason why the kind cannot be listed; nil if it can.
	unlistable atomic.Pointer[string]
}

// pending is a resource to evaluate; without a name, it means the whole namespace.
type pending struct {
	namespace, name, uid string
	due                  time.Time // when it is evaluated
	failures             int       // in a row
}

// object is the state that is stored for a resource.
type object struct {
	namespace, name string
	// hash is the hash of the evaluated content, meta that of the metadata that a watch shows.
	hash, meta uint64
	revision   uint64
	sweep      uint64 // the last sweep that has seen it
}

func newLoop(s *Scanner) *loop {
	return &loop{s: s, wake: make(chan struct{}, 1), watches: controller.Pause{First: firstPause, Longest: longestPause}, objects: map[string]*object{}, pending: map[string]pending{}}
}

// run scans the kind until ctx is done: it evaluates all objects, then each change, and all objects again when the policies change or the
// interval is over.
func (l *loop) run(ctx context.Context) {
	pause := firstPause
	var due time.Time // when the next round evaluates all objects, changed or not
	for ctx.Err() == nil {
		all := due.IsZero() || !l.s.o.Now().Before(due)
		if all {
			due = l.s.o.Now().Add(l.s.o.Interval)
		}
		policies := l.set.Load().revision // a change during the round causes another round
		if l.s.o.Share != nil {
			l.shared = l.s.o.Share.Changed()
		}
		version, err := l.sweep(ctx, all)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && unlistable(err):
			due = time.Time{}
			l.evaluated.Store(false)
			l.name(err)
			wait(ctx, unlistablePoll, l.wake)
			continue
		case err != nil:
			due = time.Time{}
			l.s.o.Observer.Requeued(Name, 1)
			l.s.o.Log.Warn("scan failed, will try again", "kind", l.set.Load().resource.GVK().String(), "in", pause, "error", err)
			wait(ctx, pause, nil)
			pause = min(2*pause, longestPause)
			continue
		}
		pause = firstPause
		l.setUnlistable(nil)
		l.evaluated.Store(true)
		l.follow(ctx, version, policies, due)
	}
}

func wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-wake:
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
	l.sweeps++
	began := l.set.Load()
	limit := int64(pageSize)
	read := func(ctx context.Context, o metav1.ListOptions) (*page, error) {
		for {
			o.Limit = limit
			p, err := list(ctx, l.s.o.Objects, began.resource, o)
			if !errors.Is(err, errTooLarge) || limit == 1 {
				return p, err
			}
			limit = max(1, limit/8) // also for the pages that follow
		}
	}
	// After a list that outlived its token, the watch from the first version fails, so that what changed meanwhile is found by another sweep.
	version, err := controller.Pages(ctx, metav1.ListOptions{}, read, func(p *page) error {
		l.each(p.items, func(i *item) { l.evaluateIfChanged(ctx, i, all, 0) })
		return ctx.Err()
	})
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(l.objects, func(_ string, o *object) bool { return o.sweep != l.sweeps })
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

package scan

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// follow watches the kind from the version, and returns when all of its objects must be checked again. policies is the revision that
// evaluated them.
func (l *loop) follow(ctx context.Context, version string, policies uint64, due time.Time) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := l.set.Load()
	events, lost := make(chan watch.Event), make(chan struct{})
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() {
		defer close(lost)
		l.watch(ctx, s, version, events)
	})
	interval := time.NewTimer(max(0, due.Sub(l.s.o.Now())))
	defer interval.Stop()
	var flush <-chan time.Time
	wait := objectQuiet
	for {
		if l.set.Load().revision != policies {
			return // the policies changed
		}
		if flush == nil && l.waiting() {
			flush = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-lost:
			return
		case <-l.shared:
			return
		case <-interval.C:
			return
		case <-l.wake:
			l.order()
		case e := <-events:
			l.event(e)
		case <-flush:
			flush = nil
			failed := l.look(ctx)
			wait = objectQuiet
			if failed {
				wait = 5 * objectQuiet
			}
		}
	}
}

func (l *loop) waiting() bool {
	l.known.Lock()
	defer l.known.Unlock()
	return len(l.pending) > 0
}

// order adds the requests of other goroutines to the pending evaluations.
func (l *loop) order() {
	l.known.Lock()
	defer l.known.Unlock()
	orders, all := l.taken()
	if all {
		orders = nil
		for uid, o := range l.objects {
			if l.holds(o.namespace) {
				o.revision = 0
				l.pending[uid] = pending{o.namespace, o.name, uid}
			}
		}
	}
	for _, p := range orders {
		if !l.holds(p.namespace) {
			continue
		}
		if p.name != "" {
			if o := l.objects[p.uid]; o != nil {
				o.revision = 0
				l.pending[p.uid] = p
			}
			continue
		}
		for uid, o := range l.objects {
			if o.namespace == p.namespace {
				o.revision = 0
				l.pending[uid] = pending{o.namespace, o.name, uid}
			}
		}
	}
}

// event handles an event of the watch.
func (l *loop) event(e watch.Event) {
	m, ok := e.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return
	}
	l.known.Lock()
	defer l.known.Unlock()
	uid := string(m.UID)
	if e.Type == watch.Deleted {
		delete(l.objects, uid)
		delete(l.pending, uid)
		return
	}
	if !l.holds(m.Namespace) {
		return
	}
	o := l.objects[uid]
	if o != nil && o.meta == metaHash(m.ResourceVersion, m.Generation, m.Labels, m.Annotations) {
		return
	}
	l.pending[uid] = pending{m.Namespace, m.Name, uid}
}

// look evaluates pending objects and reports whether some of them failed.
func (l *loop) look(ctx context.Context) (failed bool) {
	l.known.Lock()
	todo := slices.Collect(maps.Values(l.pending))
	clear(l.pending)
	l.known.Unlock()
	resource := l.set.Load().resource
	var running sync.WaitGroup
	for _, p := range todo {
		l.s.objects <- struct{}{}
		running.Go(func() {
			defer func() { <-l.s.objects }()
			if ctx.Err() != nil {
				return
			}
			i, err := get(ctx, l.s.o.Objects, resource, p.namespace, p.name)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				l.known.Lock()
				l.pending[p.uid] = p
				l.known.Unlock()
			default:
				l.evaluateIfChanged(ctx, i, false)
			}
		})
	}
	running.Wait()
	return l.waiting()
}

package scan

import (
	"context"
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
	flush := time.NewTimer(time.Hour)
	defer flush.Stop()
	for {
		if l.set.Load().revision != policies {
			return // the policies changed
		}
		flush.Reset(l.next())
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
		case <-flush.C:
			l.look(ctx)
		}
	}
}

// next returns the time until the next pending evaluation is due; a long one if there is none.
func (l *loop) next() time.Duration {
	l.known.Lock()
	defer l.known.Unlock()
	if len(l.pending) == 0 {
		return time.Hour
	}
	return max(0, l.soonest.Sub(l.s.o.Now()))
}

// add adds an evaluation. The caller holds known.
func (l *loop) add(p pending) {
	if len(l.pending) == 0 || p.due.Before(l.soonest) {
		l.soonest = p.due
	}
	l.pending[p.uid] = p
}

// put adds an evaluation, soon: further changes of the resource may follow. The caller holds known.
func (l *loop) put(p pending) {
	p.due = l.s.o.Now().Add(objectQuiet)
	if old, there := l.pending[p.uid]; there {
		p.failures = old.failures
		if old.due.Before(p.due) {
			p.due = old.due
		}
	}
	l.add(p)
}

// failed adds an evaluation that has failed, after a pause that grows from 10 seconds to 5 minutes. The caller holds known.
func (l *loop) failed(p pending) {
	pause := min(failedPause<<min(p.failures, 10), longestFailedPause)
	p.due, p.failures = l.s.o.Now().Add(pause), p.failures+1
	l.add(p)
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
				l.put(pending{namespace: o.namespace, name: o.name, uid: uid})
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
				l.put(p)
			}
			continue
		}
		for uid, o := range l.objects {
			if o.namespace == p.namespace {
				o.revision = 0
				l.put(pending{namespace: o.namespace, name: o.name, uid: uid})
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
	l.put(pending{namespace: m.Namespace, name: m.Name, uid: uid})
}

// look evaluates the pending objects that are due.
func (l *loop) look(ctx context.Context) {
	var todo []pending
	now := l.s.o.Now()
	l.known.Lock()
	l.soonest = now.Add(longestFailedPause)
	for uid, p := range l.pending {
		if p.due.After(now) {
			if p.due.Before(l.soonest) {
				l.soonest = p.due
			}
			continue
		}
		todo = append(todo, p)
		delete(l.pending, uid)
	}
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
				l.failed(p)
				l.known.Unlock()
			default:
				l.evaluateIfChanged(ctx, i, false, p.failures)
			}
		})
	}
	running.Wait()
}

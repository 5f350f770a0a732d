package status

import (
	"errors"
	"sync"
	"time"

	"ephor.invalid/ephor/internal/controller"
	policystatus "ephor.invalid/ephor/internal/status"
)

// notes holds what evaluations report about objects until a row writes it: for each object and generation at most once in
// policystatus.BudgetEvery. K is the name of an object, which another object may get later.
type notes[K comparable, V any] struct {
	now  func() time.Time
	news *controller.Signal

	mu      sync.Mutex
	waiting map[K]note[V]
	// written holds the time of the last report about each object. Older entries are removed.
	written map[K]lastWrite
}

type note[V any] struct {
	lastWrite
	value V
}

type lastWrite struct {
	uid        string
	generation int64
	at         time.Time
}

// notesPause is the time between two rounds of writing.
const notesPause = time.Second

func newNotes[K comparable, V any]() notes[K, V] {
	return notes[K, V]{now: time.Now, news: &controller.Signal{}, waiting: map[K]note[V]{}, written: map[K]lastWrite{}}
}

// add keeps a report about an object, unless there is a recent one.
func (n *notes[K, V]) add(key K, uid string, generation int64, report func(now time.Time) V) (added bool) {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if t, ok := n.written[key]; ok && t.uid == uid && t.generation == generation && now.Sub(t.at) < policystatus.BudgetEvery {
		return false
	}
	if w, ok := n.waiting[key]; ok && w.uid == uid && w.generation >= generation {
		return false
	}
	n.waiting[key] = note[V]{lastWrite{uid, generation, now}, report(now)}
	n.news.Fire()
	return true
}

// write passes the waiting reports to a function, with the UID of the object. The function returns whether that object exists. Reports
// that could not be written are kept.
func (n *notes[K, V]) write(one func(key K, uid string, report V) (exists bool, err error)) (time.Duration, error) {
	n.mu.Lock()
	waiting := n.waiting
	n.waiting = map[K]note[V]{}
	for key, t := range n.written {
		if n.now().Sub(t.at) >= policystatus.BudgetEvery {
			delete(n.written, key)
		}
	}
	n.mu.Unlock()
	if len(waiting) == 0 {
		return 0, nil
	}
	var errs []error
	for key, w := range waiting {
		exists, err := one(key, w.uid, w.value)
		n.mu.Lock()
		switch _, newer := n.waiting[key]; {
		case err != nil:
			if errs = append(errs, err); !newer {
				n.waiting[key] = w
			}
		case exists:
			n.written[key] = w.lastWrite
		}
		n.mu.Unlock()
	}
	return notesPause, errors.Join(errs...)
}

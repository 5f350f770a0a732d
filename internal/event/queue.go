package event

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"ephor.invalid/ephor/internal/settings"
)

// Writer writes events to the API server.
type Writer interface {
	// Create writes a new event.
	Create(context.Context, *eventsv1.Event) error
	// Repeat sets the series of an event: its count so far and its last time.
	Repeat(ctx context.Context, namespace, name string, series eventsv1.EventSeries) error
}

// Options are the limits and names of a Queue.
type Options struct {
	Writer Writer
	// Instance is the name of this process's host.
	Instance string
	// Capacity is the number of events that may wait to be written; 0 or less drops all.
	Capacity int
	// Omit are the reasons of events that are not written.
	Omit []string
	// Settings return which successes are written.
	Settings func() *settings.Settings
	// Observer counts events; nil for none.
	Observer Observer
	Log      *slog.Logger
	Now      func() time.Time
}

const (
	workers  = 3
	attempts = 3
	// seriesWindow is the time in which a repetition increases the count of a written event instead of creating a new one; seriesPause is
	// the pause between two writes of the counts.
	seriesWindow = 10 * time.Minute
	seriesPause  = 10 * time.Second
	// remembered bounds the number of written events whose repetitions are counted.
	remembered = 4096
	// maxNote is the API server's limit, less the truncation mark.
	maxNote = 1021
	// shutdownTime bounds the last writes when the process stops.
	shutdownTime = 5 * time.Second
)

// identity identifies equal events. The seed is random, so that another process cannot find two events with the same one.
type identity uint64

// written is an event that may repeat.
type written struct {
	namespace, name string
	count, reported int32 // the current count, and the count that the API server has
	last            time.Time
	again           *Event // the last repetition since the last write; nil for none
}

// Queue is a Recorder that writes events to the API server.
type Queue struct {
	Options
	queue chan identity
	seed  maphash.Seed

	mu      sync.Mutex
	closed  bool
	named   int64 // the last suffix that was used in a name
	waiting map[identity]*pending
	recent  map[identity]*written
}

// pending is an event that waits to be written.
type pending struct {
	event Event
	count int32
	last  time.Time
}

// New returns a Queue. Events wait until Run writes them.
func New(o Options) *Queue {
	if o.Observer == nil {
		o.Observer = unobserved{}
	}
	return &Queue{
		Options: o, queue: make(chan identity, max(o.Capacity, 0)), seed: maphash.MakeSeed(),
		waiting: map[identity]*pending{}, recent: map[identity]*written{},
	}
}

// Record implements Recorder.
func (q *Queue) Record(e Event) { q.record(e, 1) }

// record adds an event that occurred n times.
func (q *Queue) record(e Event, n int32) {
	if !q.wanted(&e) {
		return
	}
	if e.Type == "" {
		e.Type = typeOf(e.Reason)
	}
	e.Note = shorten(e.Note)
	id, now := identity(maphash.Comparable(q.seed, e)), q.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if p := q.waiting[id]; p != nil {
		p.count, p.last = p.count+n, now
		return
	}
	if w := q.recent[id]; w != nil && now.Sub(w.last) < seriesWindow {
		again := e // only repetitions need the event
		w.count, w.last, w.again = w.count+n, now, &again
		return
	}
	if q.closed {
		return
	}
	select {
	case q.queue <- id:
		q.waiting[id] = &pending{event: e, count: n, last: now}
	default:
		q.Observer.EventDropped()
	}
}

// wanted reports whether the flag and the settings enable the event.
func (q *Queue) wanted(e *Event) bool {
	if slices.Contains(q.Omit, e.Reason) || q.Capacity <= 0 {
		return false
	}
	if e.Reason != PolicyApplied {
		return true
	}
	s := q.Settings()
	return s.SuccessEvents && (len(s.SuccessEventActions) == 0 || slices.Contains(s.SuccessEventActions, e.Action))
}

// Wants reports whether events with the reason and action would be written, so that a caller need not create others.
func (q *Queue) Wants(reason, action string) bool {
	return q.wanted(&Event{Reason: reason, Action: action})
}

// Run writes events until ctx is done, and then writes waiting events for a few more seconds.
func (q *Queue) Run(ctx context.Context) {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(shutdownTime, stop) })() // also if the loop below waits for a write
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for id := range q.queue {
				q.write(work, id)
			}
		})
	}
	pause := time.NewTicker(seriesPause)
	defer pause.Stop()
	for open := true; open; {
		select {
		case <-pause.C:
			q.repeat(work)
		case <-ctx.Done():
			open = false
		}
	}
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	close(q.queue)
	running.Wait()
	q.repeat(work)
}

// write creates one event.
func (q *Queue) write(ctx context.Context, id identity) {
	q.mu.Lock()
	p := q.waiting[id]
	first := *p
	delete(q.waiting, id)
	object := q.object(&first)
	// The event is remembered before it is written, so that events during the write count as its repetitions.
	q.remember(id, &written{namespace: object.Namespace, name: object.Name, count: first.count, reported: first.count, last: first.last})
	q.mu.Unlock()
	err := q.try(ctx, func() error {
		err := q.Writer.Create(ctx, object)
		if apierrors.IsAlreadyExists(err) {
			return nil // an earlier attempt wrote it, whose answer was lost: names are unique
		}
		return err
	})
	if err != nil {
		q.mu.Lock()
		delete(q.recent, id)
		q.mu.Unlock()
		if apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return // the namespace was deleted, so the event cannot be stored
		}
		q.giveUp()
		q.Log.Warn("an event was not written", "reason", first.event.Reason, "kind", first.event.Regarding.Kind, "name", first.event.Regarding.Name, "error", err)
	}
}

// remember adds w, and removes another one if there is no room. The caller holds the lock.
func (q *Queue) remember(id identity, w *written) {
	if len(q.recent) >= remembered {
		now := q.Now()
		for key, old := range q.recent {
			if now.Sub(old.last) >= seriesWindow {
				delete(q.recent, key)
			}
		}
	}
	for key := range q.recent {
		if len(q.recent) < remembered {
			break
		}
		delete(q.recent, key) // a random one: its next repetition becomes a new event
	}
	q.recent[id] = w
}

// repeat writes the counts of repeated events.
func (q *Queue) repeat(ctx context.Context) {
	type update struct {
		id     identity
		w      written // its state before this write
		series eventsv1.EventSeries
	}
	var updates []update
	now := q.Now()
	q.mu.Lock()
	for id, w := range q.recent {
		switch {
		case w.count > w.reported:
			updates = append(updates, update{id, *w, eventsv1.EventSeries{Count: w.count, LastObservedTime: metav1.NewMicroTime(w.last)}})
			w.reported, w.again = w.count, nil
		case now.Sub(w.last) >= seriesWindow:
			delete(q.recent, id)
		}
	}
	q.mu.Unlock()
	for _, u := range updates {
		err := q.try(ctx, func() error { return q.Writer.Repeat(ctx, u.w.namespace, u.w.name, u.series) })
		if err == nil {
			continue
		}
		q.mu.Lock()
		delete(q.recent, u.id) // the event has expired, or the API server does not answer: the next one is a new event
		q.mu.Unlock()
		if apierrors.IsNotFound(err) && u.w.again != nil {
			q.record(*u.w.again, u.w.count-u.w.reported) // another client deleted it: write the repetitions since then as a new event
			continue
		}
		q.giveUp()
	}
}

// try retries f while the API server does not answer.
func (q *Queue) try(ctx context.Context, f func() error) (err error) {
	for n := range attempts {
		if n > 0 {
			q.Observer.Requeued(QueueName, n)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(n) * 200 * time.Millisecond):
			}
		}
		err = f()
		q.Observer.Reconciled(QueueName)
		if err == nil || apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return err
		}
	}
	return err
}

// object returns the event in the API server's form. Its namespace is that of the object that it regards, or `default` for a cluster-scoped
// object.
func (q *Queue) object(p *pending) *eventsv1.Event {
	e := &p.event
	namespace := e.Regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	o := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: namespace, Name: objectName(e.Regarding.Name) + "." + fmt.Sprintf("%x", q.unique())},
		EventTime:           metav1.NewMicroTime(p.last),
		ReportingController: e.Controller, ReportingInstance: e.Controller + "-" + q.Instance,
		Action: e.Action, Reason: e.Reason, Note: e.Note, Type: e.Type,
		Regarding: e.Regarding.object(),
	}
	if e.Related != (Reference{}) {
		related := e.Related.object()
		o.Related = &related
	}
	if p.count > 1 {
		o.Series = &eventsv1.EventSeries{Count: p.count, LastObservedTime: metav1.NewMicroTime(p.last)}
	}
	return o
}

// unique returns the time in nanoseconds, or a little later if the clock has not advanced. The caller holds the lock.
func (q *Queue) unique() int64 {
	q.named = max(q.named+1, q.Now().UnixNano())
	return q.named
}

func (r Reference) object() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: r.APIVersion, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: types.UID(r.UID)}
}

// shorten cuts a note to the API server's limit, between characters.
func shorten(note string) string {
	const mark = "..." // as in Kyverno
	if len(note) <= maxNote+len(mark) {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote], "") + mark
}

// maxName leaves room for the suffix within the 253 characters of a name.
const maxName = 230

// objectName returns a valid prefix of an event's name: lower case, only letters, digits, dots and dashes, with letters or digits at both
// ends and beside each dot.
func objectName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	if len(name) > maxName {
		name = name[:maxName]
	}
	var parts []string
	for part := range strings.SplitSeq(name, ".") {
		if part = strings.Trim(part, "-"); part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return "event"
	}
	return strings.Join(parts, ".")
}

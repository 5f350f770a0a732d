package event

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"ephor.invalid/ephor/internal/settings"
)

// log is a Writer that records its calls.
type log struct {
	mu    sync.Mutex
	lines []string
	names map[string]bool
	fail  func(*eventsv1.Event) error
}

func (l *log) Create(_ context.Context, e *eventsv1.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names[e.Namespace+"/"+e.Name] {
		return fmt.Errorf("the name %s was used before", e.Name)
	}
	if l.fail != nil {
		if err := l.fail(e); err != nil {
			l.lines = append(l.lines, "failed "+e.Note)
			return err
		}
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[e.Namespace+"/"+e.Name] = true
	line := e.Type + " " + e.Note
	if e.Series != nil {
		line += fmt.Sprint(" ×", e.Series.Count)
	}
	l.lines = append(l.lines, line)
	return nil
}

func (l *log) Repeat(_ context.Context, namespace, name string, s eventsv1.EventSeries) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.names[namespace+"/"+name] {
		return notFound
	}
	l.lines = append(l.lines, fmt.Sprint("again ×", s.Count))
	return nil
}

var notFound = apierrors.NewNotFound(schema.GroupResource{Resource: "events"}, "x")

func (l *log) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}

// counts are the calls of an Observer.
type counts struct {
	mu                           sync.Mutex
	lost, rounds, again, givenUp int
}

func (c *counts) add(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

func (c *counts) EventDropped()        { c.add(&c.lost) }
func (c *counts) Reconciled(string)    { c.add(&c.rounds) }
func (c *counts) Requeued(string, int) { c.add(&c.again) }
func (c *counts) Dropped(string)       { c.add(&c.givenUp) }

// start runs a queue in a synctest bubble.
func start(t *testing.T, l *log, change func(*Options)) (q *Queue, seen *counts, stop func()) {
	t.Helper()
	seen = &counts{}
	o := Options{
		Writer: l, Instance: "host", Capacity: 100, Settings: settings.Defaults, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Observer: seen,
	}
	if change != nil {
		change(&o)
	}
	q = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { q.Run(ctx); close(done) }()
	return q, seen, func() { cancel(); <-done }
}

func on(name, note string) Event {
	return Event{Regarding: Reference{APIVersion: "v1", Kind: "Pod", Namespace: "team", Name: name}, Reason: PolicyViolation, Action: ResourcePassed, Note: note, Controller: AdmissionController}
}

// Repetitions are one event with a count.
func TestRepetitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		q, seen, stop := start(t, l, nil)
		for range 5 {
			q.Record(on("a", "one"))
			synctest.Wait()
		}
		q.Record(on("b", "one"))
		synctest.Wait()
		if want := "Warning one\nWarning one"; l.text() != want {
			t.Errorf("at once: %q, want %q", l.text(), want)
		}
		time.Sleep(seriesPause + time.Second)
		synctest.Wait()
		if want := "Warning one\nWarning one\nagain ×5"; l.text() != want {
			t.Errorf("after a pause: %q, want %q", l.text(), want)
		}
		time.Sleep(seriesWindow + seriesPause)
		q.Record(on("a", "one"))
		stop()
		if want := "Warning one\nWarning one\nagain ×5\nWarning one"; l.text() != want {
			t.Errorf("much later: %q, want %q", l.text(), want)
		}
		if seen.lost != 0 || seen.rounds != 4 || seen.again != 0 {
			t.Errorf("%+v", seen)
		}
	})
}

// A repeated event that another client has deleted is written again.
func TestRepetitionOfAForgottenEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		q, _, stop := start(t, l, nil)
		q.Record(on("a", "one"))
		synctest.Wait()
		l.mu.Lock()
		l.names = nil
		l.mu.Unlock()
		q.Record(on("a", "one"))
		q.Record(on("a", "one"))
		time.Sleep(seriesPause + time.Second)
		q.Record(on("a", "one"))
		stop()
		if want := "Warning one\nWarning one ×2\nagain ×3"; l.text() != want {
			t.Errorf("%q, want %q", l.text(), want)
		}
	})
}

// The queue holds at most its capacity; further events are counted.
func TestCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &log{}
		seen := &counts{}
		q := New(Options{Writer: l, Capacity: 3, Settings: settings.Defaults, Log: slog.New(slog.DiscardHandler), Now: time.Now, Observer: seen})
		for i := range 5 {
			q.Record(on("a", fmt.Sprint(i)))
			q.Record(on("a", fmt.Sprint(i))) // a repetition needs no room
		}
		if seen.lost != 4 || seen.givenUp != 0 {
			t.Errorf("%+v, want 4 lost", seen)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		q.Run(ctx) // writes waiting events even after it is stopped
		for _, want := range []string{"Warning 0 ×2", "Warning 1 ×2", "Warning 2 ×2"} {
			if !strings.Contains(l.text(), want) {
				t.Errorf("%q lacks %q", l.text(), want)
			}
		}
		none := New(Options{Capacity: 0, Settings: settings.Defaults, Now: time.Now})
		none.Record(on("a", "x"))
		if len(none.waiting) != 0 {
			t.Error("a queue without capacity keeps events")
		}
	})
}

// Failed writes are tried three times, then counted; those that cannot succeed are not retried.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		name           string
		err            error
		times          int // the first attempts that fail
		tried, dropped int
		written        bool
	}{
		{"once", errors.New("no answer"), 1, 2, 0, true},
		{"always", errors.New("no answer"), 99, 3, 1, false},
		{"no namespace", notFound, 99, 1, 0, false},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", nil), 99, 1, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tried := 0
				l := &log{}
				l.fail = func(*eventsv1.Event) error {
					if tried++; tried <= c.times {
						return c.err
					}
					return nil
				}
				q, seen, stop := start(t, l, nil)
				q.Record(on("a", "one"))
				time.Sleep(time.Minute)
				stop()
				if tried != c.tried || strings.Contains(l.text(), "Warning one") != c.written ||
					seen.lost != c.dropped || seen.givenUp != c.dropped || seen.rounds != c.tried || seen.again != c.tried-1 {
					t.Errorf("tried %d times, %+v, wrote %q", tried, seen, l.text())
				}
			})
		})
	}
}

// An event that was written although the answer was lost is not an event that is lost: it counts its repetitions.
func TestLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, tried := &log{}, 0
		l.fail = func(e *eventsv1.Event) error {
			if tried++; tried == 1 {
				return errors.New("no answer")
			}
			l.names = map[string]bool{e.Namespace + "/" + e.Name: true}
			return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, e.Name)
		}
		q, seen, stop := start(t, l, nil)
		q.Record(on("a", "one"))
		time.Sleep(time.Second)
		q.Record(on("a", "one"))
		time.Sleep(time.Minute)
		stop()
		if tried != 2 || seen.lost != 0 || !strings.HasSuffix(l.text(), "again ×2") {
			t.Errorf("tried %d times, %+v, wrote %q", tried, seen, l.text())
		}
	})
}

// silent is a Writer of an API server that does not answer repetitions.
type silent struct{ *log }

func (silent) Repeat(ctx context.Context, _, _ string, _ eventsv1.EventSeries) error {
	<-ctx.Done()
	return ctx.Err()
}

// A process that stops waits a few seconds for its events, also while the API server does not answer a write of counts.
func TestStopDuringRepetitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _, stop := start(t, nil, func(o *Options) { o.Writer = silent{&log{}} })
		for range 2 {
			q.Record(on("a", "one"))
			synctest.Wait()
		}
		time.Sleep(seriesPause + time.Second) // the counts are being written
		began := time.Now()
		stop()
		if took := time.Since(began); took > shutdownTime+time.Second {
			t.Errorf("it stopped after %s", took)
		}
	})
}

// The flag omits reasons; successes are written only if the settings enable their action.
func TestWanted(t *testing.T) {
	s := settings.Defaults()
	q := New(Options{Capacity: 1, Omit: []string{PolicySkipped}, Settings: func() *settings.Settings { return s }})
	check := func(reason, action string, want bool) {
		t.Helper()
		if q.Wants(reason, action) != want {
			t.Errorf("%s, %s with %v, %v: want %v", reason, action, s.SuccessEvents, s.SuccessEventActions, want)
		}
	}
	check(PolicyViolation, ResourcePassed, true)
	check(PolicySkipped, ResourcePassed, false)
	check(PolicyApplied, ResourcePassed, false)
	s.SuccessEvents = true
	check(PolicyApplied, ResourcePassed, true)
	s.SuccessEventActions = []string{ResourceMutated}
	check(PolicyApplied, ResourcePassed, false)
	check(PolicyApplied, ResourceMutated, true)
}

// An event has a valid name and a namespace, and its note is cut to the length that the API server accepts.
func TestObject(t *testing.T) {
	q := New(Options{Instance: "host", Now: func() time.Time { return time.Unix(0, 0x1234) }})
	e := on("Web_1.", strings.Repeat("ä", 1000))
	e.Note = shorten(e.Note)
	o := q.object(&pending{event: e})
	if o.Name != "web-1.1234" || o.Namespace != "team" || o.ReportingInstance != "kyverno-admission-host" || o.Related != nil {
		t.Errorf("%+v", o)
	}
	if !strings.HasSuffix(o.Note, "ä...") || len(o.Note) > 1024 {
		t.Errorf("a note of %d bytes: %q", len(o.Note), o.Note[len(o.Note)-8:])
	}
	o = q.object(&pending{event: Event{Regarding: Reference{Kind: "ClusterPolicy", Name: "---"}, Related: Reference{Kind: "Node", Name: "n"}}})
	if o.Name != "event.1235" || o.Namespace != "default" || o.Related == nil {
		t.Errorf("%+v", o)
	}
}

// Names of roles and bindings may have characters that names of events may not.
func TestObjectName(t *testing.T) {
	for name, want := range map[string]string{
		"web-1": "web-1", "Web_1.": "web-1", "system:node": "system-node", "a.b-c": "a.b-c", "a..b": "a.b", "team:.admins.:x": "team.admins.x", "..": "event",
		strings.Repeat("a", 229) + ".b": strings.Repeat("a", 229),
	} {
		got := objectName(name)
		if problems := validation.IsDNS1123Subdomain(got + ".1"); got != want || len(problems) > 0 {
			t.Errorf("%s: %q, want %q; %v", name, got, want, problems)
		}
	}
}

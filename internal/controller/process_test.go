package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// steps is a process that records the order of events.
type steps struct {
	mu   sync.Mutex
	seen []string
}

func (s *steps) add(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, step)
}

// until returns a step that runs until its context is done.
func (s *steps) until(step string) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		s.add(step + " ended")
		return nil
	}
}

func (s *steps) process() *Process {
	return &Process{
		Cache: s.until("cache"),
		Build: func(context.Context) error { s.add("build"); return nil },
		Serve: s.until("serve"),
		Fill:  func(context.Context) error { s.add("fill"); return nil },
		Rows: func(context.Context) ([]Row, error) {
			s.add("rows")
			return []Row{{Name: "row", Sources: []Source{Func(func(ctx context.Context, _ func(string)) error { return s.until("row")(ctx) })}}}, nil
		},
		After: func(context.Context) { s.add("after") },
		Last:  []func(context.Context){func(ctx context.Context) { _ = s.until("last")(ctx) }},
	}
}

func TestProcessEndsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s steps
		l := s.process()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		if !slices.Equal(s.seen, []string{"build", "fill", "rows"}) {
			t.Fatalf("it began with %v", s.seen)
		}
		stop()
		err := <-done
		synctest.Wait()
		if err != nil {
			t.Fatal(err)
		}
		at := func(step string) int { return slices.Index(s.seen, step) }
		for _, first := range []string{"serve ended", "row ended", "after"} {
			if at(first) < 0 || at(first) > at("last ended") {
				t.Errorf("%s does not come before what goes on last: %v", first, s.seen)
			}
		}
		if at("after") < at("row ended") {
			t.Errorf("what comes after the rows does not: %v", s.seen)
		}
		if at("last ended") < 0 || at("cache ended") < at("last ended") {
			t.Errorf("the cache does not end last: %v", s.seen)
		}
	})
}

// TestProcessWaitsForCaches tests that a controller that is stopped while its caches fill does not evaluate requests, since it
// would admit everything during the drain.
func TestProcessWaitsForCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s steps
		l := s.process()
		l.Fill = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Errorf("being asked to stop is no failure: %v", err)
		}
		synctest.Wait() // the cache ends by itself
		if slices.Contains(s.seen, "rows") {
			t.Errorf("it worked without filled caches: %v", s.seen)
		}
	})
}

func TestProcessFailures(t *testing.T) {
	fails := func(context.Context) error { return errors.New("broken") }
	for name, breaks := range map[string]func(*Process){
		"cache": func(l *Process) { l.Cache = fails },
		"build": func(l *Process) { l.Build = fails },
		"serve": func(l *Process) { l.Serve = fails },
		"fill":  func(l *Process) { l.Fill = fails },
		"rows":  func(l *Process) { l.Rows = func(context.Context) ([]Row, error) { return nil, errors.New("broken") } },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s steps
				l := s.process()
				breaks(l)
				if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "broken") {
					t.Errorf("the error is %v", err)
				}
				synctest.Wait()
			})
		})
	}
}

package share

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/budget"
)

// clocked returns Shares of two processors with a clock that advances only while an evaluation waits.
func clocked() (*Shares, *time.Time) {
	s := New(2)
	at := time.Unix(1000, 0)
	s.now = func() time.Time { return at }
	s.sleep = func(_ context.Context, d time.Duration) error { at = at.Add(d); return nil }
	return s, &at
}

// work takes steps in small parts and returns how many were taken.
func work(p budget.Pacer, steps int64) (taken int64, err error) {
	const part = 1024
	if err := p.Pace(context.Background(), 0); err != nil {
		return 0, err
	}
	for ; taken < steps && err == nil; taken += part {
		err = p.Pace(context.Background(), part)
	}
	p.Done()
	return taken, err
}

// TestT8Share: use beyond the share of a namespace waits, and then becomes an error; another namespace does not wait.
func TestT8Share(t *testing.T) {
	s, at := clocked()
	begin := *at
	const second = 2 * stepsPerSecond / partOfOne // what one namespace gets in a second
	if n, err := work(s.Pacer("a", true), second/2); err != nil || !at.Equal(begin) {
		t.Errorf("within the burst: %d steps, %v after %v", n, err, at.Sub(begin))
	}
	n, err := work(s.Pacer("a", true), second+second/2)
	if took := at.Sub(begin); err != nil || took < 900*time.Millisecond || took > 1100*time.Millisecond {
		t.Errorf("a second's worth beyond the burst: %d steps, %v after %v, want about a second", n, err, took)
	}
	n, err = work(s.Pacer("a", true), 10*second)
	if !errors.Is(err, budget.ErrExhausted) || n < second || n > 3*second {
		t.Errorf("ten seconds' worth: %d steps and %v, want an error after two", n, err)
	}
	before := *at
	if n, err := work(s.Pacer("b", true), second/2); err != nil || !at.Equal(before) {
		t.Errorf("another namespace: %d steps, %v, waited %v", n, err, at.Sub(before))
	}
}

// TestT8ShareOfAll: if many namespaces are busy, each gets less, so that all together stay within their share.
func TestT8ShareOfAll(t *testing.T) {
	s, at := clocked()
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	charge := func(name string, steps int64) time.Duration {
		p := s.Pacer(name, true).(*pacer)
		p.Spend(steps)
		owed := p.charge()
		p.Done()
		return owed
	}
	for _, n := range names {
		charge(n, int64(s.one)) // the burst
	}
	*at = at.Add(sweepEvery)
	total := 0.0
	for _, n := range names {
		owed := charge(n, int64(s.one))
		total += s.one / owed.Seconds()
	}
	if total > 1.2*s.all {
		t.Errorf("%d namespaces get %.0f steps a second together, all may take %.0f", len(names), total, s.all)
	}
	*at = at.Add(time.Minute)
	charge("z", 1)
	if len(s.namespaces) != 1 {
		t.Errorf("%d accounts are kept after a minute without use, want that of z", len(s.namespaces))
	}
}

// TestT8Large: only some large evaluations continue at a time, and those that may not wait fail at once.
func TestT8Large(t *testing.T) {
	s := New(2)
	var holders []budget.Pacer
	for range maxLarge {
		p := s.Pacer("a", true)
		if err := p.Pace(context.Background(), 2*portion); err != nil {
			t.Fatal(err)
		}
		holders = append(holders, p)
	}
	late := s.Pacer("a", false)
	if err := late.Pace(context.Background(), portion-1); err != nil {
		t.Errorf("a small one: %v", err)
	}
	if err := late.Pace(context.Background(), 1); !errors.Is(err, budget.ErrExhausted) {
		t.Errorf("one too many that may not wait: %v", err)
	}
	late.Done()
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error)
	next, gone := s.Pacer("a", true), s.Pacer("a", true)
	go func() { waiting <- gone.Pace(ctx, 2*portion) }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("one whose request is over: %v", err)
	}
	gone.Done()
	go func() { waiting <- next.Pace(context.Background(), 2*portion) }()
	holders[0].Done()
	if err := <-waiting; err != nil {
		t.Errorf("after a place became free: %v", err)
	}
	holders[1].Done()
	next.Done()
	if n := s.namespaces["a"]; n.using != 0 || len(n.large) != 0 || n.waiting != 0 {
		t.Errorf("after all are done: %+v", n)
	}
}

// TestT23Turns: policies of a namespace are reviewed one at a time, their work is charged, and a wait that is too long is an error that says so.
func TestT23Turns(t *testing.T) {
	s, at := clocked()
	ctx, cancel := context.WithDeadline(t.Context(), at.Add(-time.Hour)) // no time to wait
	defer cancel()
	done, err := s.Turn(t.Context(), "a", int64(s.one)*3)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Turn(ctx, "a", 1); !errors.Is(err, budget.ErrExhausted) || !strings.Contains(err.Error(), "namespace a") {
		t.Errorf("a second review at the same time: %v", err)
	}
	if other, err := s.Turn(ctx, "b", 1); err != nil {
		t.Errorf("a review in another namespace: %v", err)
	} else {
		other()
	}
	done()
	if _, err := s.Turn(ctx, "a", 1); !errors.Is(err, budget.ErrExhausted) {
		t.Errorf("a review while the namespace is in debt: %v", err)
	}
	begin := *at
	if done, err = s.Turn(t.Context(), "a", 1); err != nil || at.Sub(begin) < time.Second {
		t.Fatalf("a review that may wait: %v after %v, want two seconds", err, at.Sub(begin))
	}
	done()
	if n := len(s.namespaces["a"].turn); n != 0 {
		t.Errorf("%d turns are not over", n)
	}
}

package keystore

import (
	"context"
	"errors"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/seal"
)

// Keys are read at their first use, rarely after that, and kept while the Secret cannot be read. Then none are fresh.
func TestCached(t *testing.T) {
	s := newStore()
	now, looks := time.Unix(1000, 0), 0
	down := errors.New("no answer")
	fails := down
	c := &Cached{Now: func() time.Time { return now }, Load: func(ctx context.Context) (*seal.Keyring, error) {
		looks++
		if fails != nil {
			return nil, fails
		}
		return s.Load(ctx)
	}}
	if _, err := c.Ring(t.Context()); !errors.Is(err, down) {
		t.Errorf("without a key: %v", err)
	}
	fails = nil
	if _, err := c.Ring(t.Context()); !errors.Is(err, down) || looks != 1 {
		t.Errorf("without a key, at once: %v, %d looks", err, looks)
	}
	now = now.Add(firstRetry)
	first, err := c.Ring(t.Context())
	if err != nil || looks != 2 {
		t.Fatalf("%d looks, %v", looks, err)
	}
	if _, err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name  string
		after time.Duration
		get   func(context.Context) (*seal.Keyring, error)
		err   error
		looks int
		keys  int
	}{
		{"at once", 0, c.Ring, nil, 2, 1},
		{"fresh, at once", 0, c.Fresh, nil, 2, 1},
		{"fresh, and the Secret cannot be read", soonest, c.Fresh, down, 3, 0},
		{"fresh, just after that", time.Second, c.Fresh, down, 3, 0},
		{"and the Secret cannot be read", renewAfter, c.Ring, down, 4, 1},
		{"fresh", soonest, c.Fresh, nil, 5, 2},
		{"a while later", soonest, c.Ring, nil, 5, 2},
		{"long after", renewAfter, c.Ring, nil, 6, 2},
	} {
		now, fails = now.Add(step.after), step.err
		ring, err := step.get(t.Context())
		if (err == nil) != (step.keys > 0) || looks != step.looks || err == nil && ring.Len() != step.keys {
			t.Errorf("%s: %v, %d looks", step.name, err, looks)
		}
	}
	if first.Len() != 1 {
		t.Error("a keyring changed")
	}
}

package discovery_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"ephor.invalid/ephor/internal/discovery"
	"ephor.invalid/ephor/internal/kubeversion"
)

// cluster is a cluster whose API servers have these versions. Answers come from the server that next names.
type apiServers struct {
	next  kubeversion.Minor
	fails bool
	now   time.Time
	notes map[kubeversion.Minor]time.Time
}

func (c *apiServers) replica(shared bool) *discovery.Servers {
	s := &discovery.Servers{
		Ask: func(context.Context) (kubeversion.Minor, error) {
			if c.fails {
				return 0, errors.New("no answer")
			}
			return c.next, nil
		},
		Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler),
	}
	if shared {
		s.Share = func(_ context.Context, seen map[kubeversion.Minor]time.Time) (map[kubeversion.Minor]time.Time, error) {
			for v, at := range seen {
				if at.After(c.notes[v]) {
					c.notes[v] = at
				}
			}
			return maps.Clone(c.notes), nil
		}
	}
	return s
}

// During an upgrade the oldest version counts that answered within ten minutes, and it rises when only newer ones answer.
func TestServers(t *testing.T) {
	c := &apiServers{now: time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)}
	s := c.replica(false)
	if s.Version() != 0 {
		t.Error("a version before the first answer")
	}
	var changes []kubeversion.Minor
	s.Changed(func(v kubeversion.Minor) { changes = append(changes, v) })
	for _, step := range []struct {
		after  time.Duration
		answer kubeversion.Minor
		want   kubeversion.Minor
	}{
		{0, 36, 36}, {time.Minute, 37, 36}, {9 * time.Minute, 37, 36}, {time.Minute, 37, 37}, // no answer of 1.36 for more than ten minutes
		{time.Minute, 36, 36}, {time.Minute, 37, 36}, {30 * time.Minute, 37, 37}, // rolled back, and again
		{time.Minute, 38, 37}, {11 * time.Minute, 38, 38},
	} {
		c.now, c.next = c.now.Add(step.after), step.answer
		if err := s.Question(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.Version(); got != step.want {
			t.Errorf("after %v, answer %v: %v, want %v", step.after, step.answer, got, step.want)
		}
	}
	if want := []kubeversion.Minor{36, 37, 36, 37, 38}; !slices.Equal(changes, want) {
		t.Errorf("changes: %v, want %v", changes, want)
	}
	c.fails, c.now = true, c.now.Add(time.Hour)
	if err := s.Question(t.Context()); err == nil || s.Version() != 38 {
		t.Errorf("without answers: %v, %v", s.Version(), err)
	}
}

// All replicas agree, whichever API server answers them.
func TestServersAgree(t *testing.T) {
	c := &apiServers{now: time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC), notes: map[kubeversion.Minor]time.Time{}}
	a, b := c.replica(true), c.replica(true)
	round := func(of *discovery.Servers, answer kubeversion.Minor) {
		c.next = answer
		if err := of.Question(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	round(a, 36)
	round(b, 37) // never sees 1.36 itself
	if a.Version() != 36 || b.Version() != 36 {
		t.Errorf("%v and %v", a.Version(), b.Version())
	}
	c.now = c.now.Add(11 * time.Minute)
	round(a, 37)
	round(b, 37)
	if a.Version() != 37 || b.Version() != 37 || !slices.Equal(b.Seen(), []kubeversion.Minor{37}) {
		t.Errorf("%v and %v, seen %v", a.Version(), b.Version(), b.Seen())
	}
}

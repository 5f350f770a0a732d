package controller

import (
	"context"
	"time"
)

// lasted is the duration from which on a watch proves that the API server serves it.
const lasted = 5 * time.Second

// The pauses of rows and sources after failures grow from firstPause to longestPause.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 30 * time.Second
)

// Pause is the pause between the attempts of one source. It grows from First to Longest until an attempt has lasted 5 seconds. The zero
// value grows from 0.2 to 30 seconds.
type Pause struct {
	First, Longest time.Duration
	next           time.Duration
}

// Next returns the pause before the next attempt, and doubles it for the one after.
func (p *Pause) Next() time.Duration {
	if p.First == 0 {
		p.First, p.Longest = firstPause, longestPause
	}
	now := max(p.First, p.next)
	p.next = min(2*now, p.Longest)
	return now
}

// Lasted reports whether an attempt that began then has lasted, and if so makes the next pause the first one again.
func (p *Pause) Lasted(began time.Time) bool {
	if time.Since(began) < lasted {
		return false
	}
	p.next = 0
	return true
}

// After waits after an attempt that began then and has ended without an error, unless it has lasted.
func (p *Pause) After(ctx context.Context, began time.Time) {
	if !p.Lasted(began) {
		Sleep(ctx, p.Next())
	}
}

// Sleep waits until the duration is over or ctx is done.
func Sleep(ctx context.Context, d time.Duration) { SleepUnless(ctx, d, nil) }

// SleepUnless waits until the duration is over, the channel is closed or ctx is done.
func SleepUnless(ctx context.Context, d time.Duration, early <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-early:
	case <-t.C:
	}
}

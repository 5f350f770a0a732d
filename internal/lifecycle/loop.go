package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Trigger wakes a loop. Several calls of Fire while the loop is busy cause one more round.
type Trigger chan struct{}

func NewTrigger() Trigger { return make(Trigger, 1) }

func (t Trigger) Fire() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// Task is one controller: it reconciles a state after each change.
type Task struct {
	Name string
	Wake Trigger
	// Once reconciles the state. It returns the time until the next run without a change; 0 for never.
	Once func(ctx context.Context) (time.Duration, error)
}

// The pause after a failed round grows from firstPause to longestPause.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 30 * time.Second
)

// Run calls Once at the start and after each change, until ctx is done.
func (t Task) Run(ctx context.Context, log *slog.Logger) {
	pause := firstPause
	for {
		next, err := t.Round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("controller failed, will try again", "controller", t.Name, "in", pause, "error", err)
			next, pause = pause, min(2*pause, longestPause)
		default:
			pause = firstPause
		}
		var timer <-chan time.Time
		if next > 0 {
			timer = time.After(next)
		}
		news := t.Wake
		if err != nil {
			news = nil // a change does not make the retry earlier
		}
		select {
		case <-ctx.Done():
			return
		case <-timer:
		case <-news:
		}
	}
}

// Round turns a panic into an error, so that a mistake in one controller does not stop admission.
func (t Task) Round(ctx context.Context) (next time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return t.Once(ctx)
}

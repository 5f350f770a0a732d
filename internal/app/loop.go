package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// trigger wakes a loop. Many calls while the loop is busy are one more round.
type trigger chan struct{}

func newTrigger() trigger { return make(trigger, 1) }

func (t trigger) fire() {
	select {
	case t <- struct{}{}:
	default:
	}
}

// task is one controller: a state that is brought about again after every piece of news.
type task struct {
	name string
	wake trigger
	// once brings the state about and returns when to look again without news; 0 for never.
	once func(ctx context.Context) (time.Duration, error)
}

// The pause after a failed round grows from firstPause to longestPause.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 30 * time.Second
)

// run calls once at the start and after every piece of news until ctx is done.
func (t task) run(ctx context.Context, log *slog.Logger) {
	pause := firstPause
	for {
		next, err := t.round(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("controller failed, will try again", "controller", t.name, "in", pause, "error", err)
			next, pause = pause, min(2*pause, longestPause)
		default:
			pause = firstPause
		}
		var timer <-chan time.Time
		if next > 0 {
			timer = time.After(next)
		}
		news := t.wake
		if err != nil {
			news = nil // a failure is not retried faster because there is news
		}
		select {
		case <-ctx.Done():
			return
		case <-timer:
		case <-news:
		}
	}
}

// round turns a panic into an error: a mistake in one controller must not take admission down.
func (t task) round(ctx context.Context) (next time.Duration, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return t.once(ctx)
}

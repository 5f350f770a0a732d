package globalctx

import (
	"context"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/globalentry"
	"ephor.invalid/ephor/internal/world"
)

// The pauses between the attempts of one refresh start at firstPause and double each time, up to the pause after a failed refresh.
const firstPause = 200 * time.Millisecond

// longestOutage is the pause after a failed refresh if the interval is longer, because policies that need the data fail
// until then.
const longestOutage = 30 * time.Second

// repeated is a source that repeats a call at an interval.
type repeated struct {
	call     *globalentry.Call
	api      world.API
	services world.Services
	*publisher
}

func repeatCall(ctx context.Context, s *Store, call *globalentry.Call, p *publisher) *repeated {
	r := &repeated{call: call, api: s.API, services: s.Services, publisher: p}
	go r.run(ctx)
	return r
}

func (r *repeated) data() *data { return r.get() }

func (r *repeated) run(ctx context.Context) {
	for {
		v, err := r.refresh(ctx)
		if ctx.Err() != nil {
			return
		}
		next := r.call.Refresh
		if err != nil {
			r.fail(err)
			next = r.outage()
		} else {
			r.put(&data{value: v, refreshed: r.now()})
		}
		if !pause(ctx, next, nil) {
			return
		}
	}
}

// refresh repeats the call until it succeeds, up to the retry limit.
func (r *repeated) refresh(ctx context.Context) (v any, err error) {
	wait := firstPause
	for attempt := 0; ; attempt++ {
		if v, err = r.once(ctx); err == nil || attempt >= r.call.Retries {
			return v, err
		}
		if !pause(ctx, wait, nil) {
			return nil, ctx.Err()
		}
		wait = min(2*wait, max(r.outage(), firstPause))
	}
}

// outage returns the pause after a failed refresh.
func (r *repeated) outage() time.Duration { return min(r.call.Refresh, longestOutage) }

// once makes one call. It recovers from panics, which a hostile answer may cause.
func (r *repeated) once(ctx context.Context) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v", p)
		}
	}()
	switch {
	case r.call.API != nil && r.api != nil:
		if v, err = r.api(ctx, *r.call.API); err != nil {
			err = fmt.Errorf("failed to %s resource with raw url: %s: %w", r.call.API.Method, r.call.API.Path, err)
		}
		return v, err
	case r.call.Service != nil && r.services != nil:
		if v, err = r.services(ctx, *r.call.Service); err != nil {
			err = fmt.Errorf("failed to call %s: %w", r.call.Service.URL, err)
		}
		return v, err
	}
	return nil, fmt.Errorf("calls are %w", world.ErrUnavailable)
}

// pause waits, at most until early is closed; it returns false if ctx is done first.
func pause(ctx context.Context, d time.Duration, early <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-early:
	case <-t.C:
	}
	return true
}

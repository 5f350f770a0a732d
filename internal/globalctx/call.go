package globalctx

import (
	"context"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/controller"
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
	controller.Source

	attempts int // that have failed in this refresh
	pause    controller.Pause
}

func repeatCall(s *Store, call *globalentry.Call, p *publisher) *repeated {
	r := &repeated{call: call, api: s.API, services: s.Services, publisher: p}
	r.Source = controller.Repeat(r.refresh)
	r.retried(0)
	return r
}

func (r *repeated) data() *data { return r.get() }

func (r *repeated) end() {}

// retried notes how many attempts have failed; 0 begins a refresh.
func (r *repeated) retried(attempts int) {
	if r.attempts = attempts; attempts == 0 {
		r.pause = controller.Pause{First: firstPause, Longest: max(r.outage(), firstPause)}
	}
}

// refresh makes one attempt of a refresh, which fails after the retry limit. It returns when to make the next one.
func (r *repeated) refresh(ctx context.Context) time.Duration {
	v, err := r.once(ctx)
	switch {
	case ctx.Err() != nil:
		return 0
	case err == nil:
		r.retried(0)
		r.put(&data{value: v, refreshed: r.now()})
		return r.call.Refresh
	case r.attempts < r.call.Retries:
		r.retried(r.attempts + 1)
		return r.pause.Next()
	}
	r.retried(0)
	r.fail(err)
	return r.outage()
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

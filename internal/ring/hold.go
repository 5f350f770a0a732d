package ring

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// ErrLapsed is the error of work and requests that were cancelled because the replica has lost the key.
var ErrLapsed = errors.New("the authority to work for this key has ended: another replica may work for it now")

// hold is one piece of work in progress.
type hold struct {
	key    string
	lost   int // the value in the view when it began
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	until time.Time
}

// valid reports whether the work may continue. It reads the clock itself, since timers may be late in a process that was suspended.
func (h *hold) valid(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Before(h.until)
}

// extend sets the time at which the work expires, unless it was cancelled.
func (h *hold) extend(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.until.IsZero() {
		h.until = until
	}
}

// end cancels the work at once.
func (h *hold) end() {
	h.extend(time.Time{})
	h.cancel(ErrLapsed)
}

type holdKey struct{}

// Lapsed reports whether ctx belongs to a Hold that has expired by the clock.
func Lapsed(ctx context.Context) bool {
	h, ok := ctx.Value(holdKey{}).(*hold)
	return ok && !h.valid(time.Now())
}

// Lapsed is the function Lapsed, for users of an interface.
func (r *Ring) Lapsed(ctx context.Context) bool { return Lapsed(ctx) }

// Guard returns a RoundTripper that fails with ErrLapsed for requests of an expired Hold. Otherwise a process that was suspended between
// a read and a write would send the write before it notices.
func Guard(next http.RoundTripper) http.RoundTripper { return guard{next} }

type guard struct{ next http.RoundTripper }

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if Lapsed(r.Context()) {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, ErrLapsed
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper returns the transport below the guard, which client-go looks for to close idle connections.
func (g guard) WrappedRoundTripper() http.RoundTripper { return g.next }

// Hold begins work on a key. ok is false if it may not begin now; Changed reports when to try again. ctx is done when parent is, and
// with the cause ErrLapsed once the replica has lost the key. Call release when no work is in progress any more.
func (r *Ring) Hold(parent context.Context, key string) (ctx context.Context, release func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending || r.paused || !r.view.owns(key, time.Now()) {
		return nil, nil, false
	}
	h := &hold{key: key, lost: r.view.lost, until: r.view.proof.Add(Cancel)}
	ctx, h.cancel = context.WithCancelCause(context.WithValue(parent, holdKey{}, h))
	r.holds[h] = struct{}{}
	r.poke() // Run watches when it expires
	return ctx, func() { r.release(h) }, true
}

// release ends a hold normally.
func (r *Ring) release(h *hold) {
	h.cancel(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.holds, h)
	select {
	case r.released <- struct{}{}:
	default:
	}
}

// extendHolds extends the work in progress as far as the last round allows. It does not extend work that was cancelled, that began before the
// authority was lost, or whose key now belongs to another member.
func (r *Ring) extendHolds() {
	for h := range r.holds {
		if h.lost == r.view.lost && r.view.keeps(h.key) {
			h.extend(r.view.proof.Add(Cancel))
		}
	}
}

// endHolds cancels the work in progress that has expired, or all of it, and returns when the next one expires; zero if there is none.
func (r *Ring) endHolds(now time.Time, all bool) (next time.Time) {
	for h := range r.holds {
		h.mu.Lock()
		until := h.until
		h.mu.Unlock()
		switch {
		case until.IsZero(): // ended, and not released yet
		case all || !now.Before(until):
			h.end()
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	return next
}

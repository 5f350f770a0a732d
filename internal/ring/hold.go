package ring

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// ErrLapsed is why work was cancelled, or why a request was not sent: the authority to work for the key has ended.
var ErrLapsed = errors.New("the authority to work for this key has ended: another replica may work for it now")

// hold is one piece of work in flight.
type hold struct {
	key    string
	lost   int // of the view, when it began
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	until time.Time
}

// valid reports whether the work may go on. It asks the clock itself: in a process that was stopped no timer has fired yet.
func (h *hold) valid(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Before(h.until)
}

func (h *hold) extend(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = until
}

// end ends the work at once.
func (h *hold) end() {
	h.extend(time.Time{})
	h.cancel(ErrLapsed)
}

type holdKey struct{}

// Lapsed reports whether ctx is of a Hold whose authority has ended, by the clock and not by what was noticed so far.
func Lapsed(ctx context.Context) bool {
	h, ok := ctx.Value(holdKey{}).(*hold)
	return ok && !h.valid(time.Now())
}

// Lapsed is the function of the same name, for those who take a Ring as an interface.
func (r *Ring) Lapsed(ctx context.Context) bool { return Lapsed(ctx) }

// Guard returns a RoundTripper that does not send what belongs to a Hold whose authority has ended, but fails with ErrLapsed. A process
// that was stopped between reading and writing would else send the write before it notices.
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

// Hold begins work for a key. ok is false when that may not begin now; Changed says when to ask again. Otherwise ctx is done when
// parent is, and with the cause ErrLapsed once the authority ends; release has to be called when nothing is in flight any more.
func (r *Ring) Hold(parent context.Context, key string) (ctx context.Context, release func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending || !r.view.holds(key, time.Now()) {
		return nil, nil, false
	}
	h := &hold{key: key, lost: r.view.lost, until: r.view.proof.Add(Cancel)}
	ctx, h.cancel = context.WithCancelCause(context.WithValue(parent, holdKey{}, h))
	r.holds[h] = struct{}{}
	r.poke() // its end has to be watched
	return ctx, func() { r.release(h) }, true
}

// release ends a hold in order.
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

// extendHolds lets what is in flight go on as far as the last round allows. What was begun before the authority was lost, or for a
// key that is another's now, is not extended: it ends in its time.
func (r *Ring) extendHolds() {
	for h := range r.holds {
		if h.lost == r.view.lost && r.view.keeps(h.key) {
			h.extend(r.view.proof.Add(Cancel))
		}
	}
}

// endHolds ends what is in flight whose time is over, or everything, and returns when the next one's time is; zero when there is none.
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

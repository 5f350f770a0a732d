package intake

import (
	"time"

	"ephor.invalid/ephor/internal/policy"
)

// longestExpiryWait bounds how long an exception may stay in effect after its expiry if the clock is set or the machine
// was suspended.
const longestExpiryWait = time.Minute

// set puts an exception into the catalog until it expires; ok is false for an expired one.
func (x *Exceptions) set(id policy.ExceptionID, e *policy.Exception) (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.expiring, id)
	if !e.Expires.IsZero() {
		if e.Expired(x.Now()) {
			x.Catalog.DeleteException(id)
			return false
		}
		if x.expiring == nil {
			x.expiring = map[policy.ExceptionID]time.Time{}
		}
		x.expiring[id] = e.Expires
		x.wake(e.Expires)
	}
	x.Catalog.SetException(e)
	return true
}

// remove takes an exception out of the catalog.
func (x *Exceptions) remove(id policy.ExceptionID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.expiring, id)
	x.Catalog.DeleteException(id)
}

// expire removes the exceptions that have expired.
func (x *Exceptions) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.due = time.Time{}
	now := x.Now()
	for id, at := range x.expiring {
		if !now.Before(at) {
			delete(x.expiring, id)
			x.Catalog.DeleteException(id)
			x.Log.Info("exception has expired", "exception", id.Key(), "group", id.Group, "expired", at)
		}
	}
	for _, at := range x.expiring {
		x.wake(at)
	}
}

// wake schedules expire at a time or earlier. The caller holds the lock.
func (x *Exceptions) wake(at time.Time) {
	now := x.Now()
	if latest := now.Add(longestExpiryWait); at.After(latest) {
		at = latest
	}
	switch {
	case x.timer == nil:
		x.timer = time.AfterFunc(at.Sub(now), x.expire)
	case x.due.IsZero() || at.Before(x.due):
		x.timer.Reset(at.Sub(now))
	default:
		return
	}
	x.due = at
}

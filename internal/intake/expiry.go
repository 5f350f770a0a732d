package intake

import (
	"time"

	"ephor.invalid/ephor/internal/policy"
)

// longestExpiryWait bounds how long an exception may stay in effect after its expiry if the clock is set or the machine
// was suspended.
const longestExpiryWait = time.Minute

// ending is an exception with an end. soon: the catalog holds it as one that ends soon.
type ending struct {
	exception *policy.Exception
	soon      bool
}

// set puts an exception into the catalog until it expires; ok is false for an expired one.
func (x *Exceptions) set(id policy.ExceptionID, e *policy.Exception) (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.expiring, id)
	if e.Expires.IsZero() {
		x.Catalog.SetException(e)
		return true
	}
	now := x.Now()
	if e.Expired(now) {
		x.Catalog.DeleteException(id)
		return false
	}
	if x.expiring == nil {
		x.expiring = map[policy.ExceptionID]ending{}
	}
	soon, next := x.soon(e, now)
	x.expiring[id] = ending{e, soon}
	x.wake(next)
	x.Catalog.SetException(marked(e, soon))
	return true
}

// soon reports whether the exception ends within the days of the settings, and when the next change is due.
func (x *Exceptions) soon(e *policy.Exception, now time.Time) (soon bool, next time.Time) {
	days := 0
	if x.WarnDays != nil {
		days = x.WarnDays()
	}
	from := e.Expires.AddDate(0, 0, -days)
	if days > 0 && now.Before(from) {
		return false, from
	}
	return days > 0, e.Expires
}

// marked returns the exception, marked as one that ends soon.
func marked(e *policy.Exception, soon bool) *policy.Exception {
	if !soon {
		return e
	}
	out := *e
	out.EndsSoon = true
	return &out
}

// remove takes an exception out of the catalog.
func (x *Exceptions) remove(id policy.ExceptionID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.expiring, id)
	x.Catalog.DeleteException(id)
}

// expire removes the exceptions that have expired, and marks those that end soon.
func (x *Exceptions) expire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.due = time.Time{}
	now := x.Now()
	for id, at := range x.expiring {
		e := at.exception
		if e.Expired(now) {
			delete(x.expiring, id)
			x.Catalog.DeleteException(id)
			x.Log.Info("exception has expired", "exception", id.Key(), "group", id.Group, "expired", e.Expires)
			continue
		}
		soon, next := x.soon(e, now)
		if soon != at.soon {
			x.expiring[id] = ending{e, soon}
			x.Catalog.SetException(marked(e, soon))
		}
		x.wake(next)
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

package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ephor-dev/ephor/internal/catalog"
	"github.com/ephor-dev/ephor/internal/updaterequest"
)

const (
	// lag is how long other replicas may still execute work for a deleted rule.
	lag = 15 * time.Second
	// maxAgain is the maximum number of remembered rules.
	maxAgain = 1000
)

// undoneAt is a rule whose objects were deleted, and the time of the next check.
type undoneAt struct {
	undo
	at time.Time
}

// remember schedules another check for objects of a rule: another replica may have created one during the deletion.
func (f *Follower) remember(x undo) {
	if x.release {
		return
	}
	f.again = append(f.again, undoneAt{x, f.Worker.Now().Add(lag)})
	if n := len(f.again) - maxAgain; n > 0 {
		f.again = f.again[n:]
	}
}

// undoAgain checks again for objects of deleted rules. It returns the time until the next call; 0 means never.
func (f *Follower) undoAgain(ctx context.Context) (next time.Duration, err error) {
	var errs []error
	now := f.Worker.Now()
	for len(f.again) > 0 {
		x := f.again[0]
		if wait := x.at.Sub(now); wait > 0 {
			next = wait
			break
		}
		if !isBack(f.Worker.Snapshot(), x.entry) {
			if err := f.undo(ctx, &x.undo); err != nil {
				next = recountPause
				errs = append(errs, fmt.Errorf("objects of rule %s of policy %s: %w", x.Rule, x.Policy, err))
				break
			}
		}
		f.again = f.again[1:]
	}
	return next, errors.Join(errs...)
}

// isBack reports whether a rule with this name exists again. Then the objects belong to that rule.
func isBack(s *catalog.Snapshot, e entry) bool {
	_, rule := updaterequest.FindRule(s, e.id(), e.Rule)
	return rule != nil
}

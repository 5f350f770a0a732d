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
	// lag is how long other replicas may work for a rule that is gone: until they know it, and what is under way is done.
	lag = 15 * time.Second
	// maxAgain bounds the rules that are remembered for that.
	maxAgain = 1000
)

// undoneAt is a rule whose objects were deleted, and when they are looked for again.
type undoneAt struct {
	undo
	at time.Time
}

// remember has what a rule made looked for once more: another replica may have made something just when it was deleted.
func (f *Follower) remember(x undo) {
	if x.release {
		return
	}
	f.again = append(f.again, undoneAt{x, f.Worker.Now().Add(lag)})
	if n := len(f.again) - maxAgain; n > 0 {
		f.again = f.again[n:]
	}
}

// undoAgain looks for what rules made that are gone for a while, and says when to come again; 0 for not at all.
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
				next = lookForRoom
				errs = append(errs, fmt.Errorf("what rule %s of policy %s made: %w", x.Rule, x.Policy, err))
				break
			}
		}
		f.again = f.again[1:]
	}
	return next, errors.Join(errs...)
}

// isBack reports whether there is a rule of that name again. What it makes is its own.
func isBack(s *catalog.Snapshot, e entry) bool {
	_, rule := updaterequest.FindRule(s, e.id(), e.Rule)
	return rule != nil
}

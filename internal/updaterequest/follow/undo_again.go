package follow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/updaterequest"
)

const (
	// lag is how long other replicas may still execute work for a deleted rule.
	lag = 15 * time.Second
	// maxAgain is the maximum number of remembered rules.
	maxAgain = 1000
)

// remember schedules another check for objects of a rule: another replica may have created one during the deletion. The check is in the
// record of rules, so that the next leader does it if this one ends before.
func (f *Follower) remember(x undo) {
	if x.release {
		return
	}
	x.KeepCopies, x.Again = x.keepCopies, f.Worker.Now().Add(lag).UnixMilli()
	f.again = append(f.again, x.entry)
	if n := len(f.again) - maxAgain; n > 0 {
		f.again = f.again[n:]
	}
}

// resume separates the scheduled checks from the entries of the record, and adds those that an earlier leader scheduled to f.again.
func (f *Follower) resume(entries []entry) (rules []entry) {
	latest := f.Worker.Now().Add(lag).UnixMilli() // the clock of the earlier leader may be ahead
	for _, e := range entries {
		switch {
		case e.Again == 0:
			rules = append(rules, e)
		case !slices.ContainsFunc(f.again, func(x entry) bool { return x.key() == e.key() }):
			e.Again = min(e.Again, latest)
			f.again = append(f.again, e)
		}
	}
	slices.SortStableFunc(f.again, func(a, b entry) int { return cmp.Compare(a.Again, b.Again) })
	return rules
}

// undoAgain checks again for objects of deleted rules.
func (f *Follower) undoAgain(ctx context.Context) error {
	now := f.Worker.Now().UnixMilli()
	for len(f.again) > 0 && f.again[0].Again <= now {
		x := f.again[0]
		if !isBack(f.Worker.Snapshot(), x) {
			if err := f.undo(ctx, &undo{entry: x, keepCopies: x.KeepCopies}); err != nil {
				return fmt.Errorf("objects of rule %s of policy %s: %w", x.Rule, x.Policy, err)
			}
		}
		f.again = f.again[1:]
	}
	return nil
}

// nextCheck returns the time until the next scheduled check; 0 for none.
func (f *Follower) nextCheck() time.Duration {
	if len(f.again) == 0 {
		return 0
	}
	return max(time.UnixMilli(f.again[0].Again).Sub(f.Worker.Now()), recountPause)
}

// isBack reports whether a rule with this name exists again. Then the objects belong to that rule.
func isBack(s *catalog.Snapshot, e entry) bool {
	_, rule := updaterequest.FindRule(s, e.id(), e.Rule)
	return rule != nil
}

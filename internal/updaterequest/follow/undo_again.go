package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
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
	x.KeepCopies, x.Again = x.keepCopies, f.Now().Add(lag).UnixMilli()
	f.again = append(f.again, x.Definition)
	if n := len(f.again) - maxAgain; n > 0 {
		f.again = f.again[n:]
	}
}

// resume separates the scheduled checks from the entries of the record, and adds those that an earlier leader scheduled to f.again.
func (f *Follower) resume(entries []origin.Definition) (rules []origin.Definition) {
	latest := f.Now().Add(lag).UnixMilli() // the clock of the earlier leader may be ahead
	for _, e := range entries {
		switch {
		case e.Again == 0:
			rules = append(rules, e)
		case !slices.ContainsFunc(f.again, func(x origin.Definition) bool { return x.Rule() == e.Rule() }):
			e.Again = min(e.Again, latest)
			f.again = append(f.again, e)
		}
	}
	slices.SortStableFunc(f.again, func(a, b origin.Definition) int { return cmp.Compare(a.Again, b.Again) })
	return rules
}

// undoAgain checks again for objects of deleted rules. A check that fails stays scheduled, and keeps none of the others from being done.
func (f *Follower) undoAgain(ctx context.Context) error {
	now := f.Now().UnixMilli()
	var errs []error
	f.again = slices.DeleteFunc(f.again, func(x origin.Definition) bool {
		if x.Again > now || isBack(f.Snapshot(), x) {
			return x.Again <= now
		}
		err := f.undo(ctx, &undo{Definition: x, keepCopies: x.KeepCopies})
		if err != nil {
			errs = append(errs, fmt.Errorf("objects of rule %s of policy %s: %w", x.Name, x.Policy, err))
		}
		return err == nil
	})
	return errors.Join(errs...)
}

// nextCheck returns the time until the next scheduled check; 0 for none.
func (f *Follower) nextCheck() time.Duration {
	if len(f.again) == 0 {
		return 0
	}
	return max(time.UnixMilli(f.again[0].Again).Sub(f.Now()), recountPause)
}

// isBack reports whether a rule with this name exists again. Then the objects belong to that rule.
func isBack(s *catalog.Snapshot, e origin.Definition) bool {
	_, rule := updaterequest.FindRule(s, e.Rule().ID, e.Name)
	return rule != nil
}

package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// undo is the work for the objects of one deleted or changed rule.
type undo struct {
	origin.Definition
	// release: the objects stay but lose their labels, since the rule now generates other objects. Otherwise they are deleted.
	release bool
	// keepCopies: copies stay, since only the rule was deleted and its policy still exists.
	keepCopies bool
}

// undone compares the known rules with today's rules, and returns the work for the differences. stays reports whether a policy still
// exists. Copies are deleted with their policy unless the rule keeps them, but not if only their rule was removed.
func undone(known, today []origin.Definition, stays func(catalog.ID) bool) []undo {
	now := map[origin.Rule]*origin.Definition{}
	for i := range today {
		now[today[i].Rule()] = &today[i]
	}
	var out []undo
	for _, e := range known {
		switch n := now[e.Rule()]; {
		case n == nil && (!e.Synchronize || e.Orphan):
		case n == nil && !stays(e.Rule().ID):
			out = append(out, undo{Definition: e, keepCopies: e.KeepCopies})
		case n == nil && !e.CopiesOnly():
			out = append(out, undo{Definition: e, keepCopies: true})
		case n != nil && !n.Exact && !slices.Equal(e.Makes, n.Makes):
			out = append(out, undo{Definition: e, release: true})
		}
	}
	return out
}

// settle deletes or releases the objects of rules that were deleted or now generate other objects, and writes the current rules to the
// record, with the checks that are still to be done. If the work for a rule fails, its old entry stays in the record, and the next call
// retries the work. waits reports that some of it waits for the threshold.
func (f *Follower) settle(ctx context.Context) (waits bool, err error) {
	f.settled = f.Snapshot()
	today := origin.Definitions(f.settled)
	known, err := f.Made.Record.LoadRules(ctx)
	if err != nil {
		return false, err
	}
	var errs []error
	stays := func(id catalog.ID) bool { return f.settled.Get(id) != nil }
	rules := f.withPassed(f.resume(known))
	if err := f.undoAgain(ctx); err != nil {
		errs = append(errs, err)
	}
	for _, x := range undone(rules, today, stays) {
		err := f.undo(ctx, &x)
		if err == nil {
			f.remember(x)
			continue
		}
		if waits = waits || err == errWaits; err != errWaits {
			errs = append(errs, fmt.Errorf("objects of rule %s of policy %s: %w", x.Name, x.Policy, err))
		}
		today = slices.DeleteFunc(today, func(e origin.Definition) bool { return e.Rule() == x.Rule() })
		today = append(today, x.Definition)
	}
	if len(errs) == 0 {
		f.forgetRules(ctx)
	}
	return waits, errors.Join(append(errs, f.Made.Record.StoreRules(ctx, append(today, f.again...)))...)
}

// forgetRules removes deleted rules from the record of generated objects after their objects were handled.
func (f *Follower) forgetRules(ctx context.Context) {
	for _, r := range f.Made.Record.Rules() {
		is := func(x origin.Definition) bool { return x.Rule() == r }
		exists := func(s *catalog.Snapshot) bool {
			_, rule := updaterequest.FindRule(s, r.ID, r.Name)
			return rule != nil
		}
		if exists(f.settled) || exists(f.Snapshot()) || slices.ContainsFunc(f.again, is) || f.hasPassed(is) || f.current(ctx, r.ID) != nil {
			continue
		}
		f.Made.Record.Forget(r)
	}
}

// current returns an error if this replica does not have the current state of a policy. The records may be from replicas that have it.
func (f *Follower) current(ctx context.Context, id catalog.ID) error {
	if f.Stored == nil {
		return nil
	}
	differs, err := f.Stored.Differs(ctx, id, f.Snapshot().Get(id))
	if err == nil && differs {
		err = errors.New("this replica does not have the current policy, will retry")
	}
	return err
}

// undo deletes or releases the objects of one rule.
func (f *Follower) undo(ctx context.Context, x *undo) error {
	if err := f.current(ctx, x.Rule().ID); err != nil {
		return err
	}
	p, r := x.Program()
	all, err := f.Made.Of(ctx, p, r, origin.Which{})
	if err != nil {
		return err
	}
	if x.keepCopies {
		all.Filter(func(c mark.Claim) bool { return c.Source == "" })
	}
	f.Made.ReportUnproved(p, r, all.Unproved...)
	objects := all.Proved
	if !x.release {
		if len(objects) > 0 {
			f.Log.Info("deleting the objects of a deleted rule", "policy", x.Policy, "rule", x.Name, "objects", len(objects))
		}
		return f.Made.Remove(ctx, p, objects)
	}
	now, rule := updaterequest.FindRule(f.Snapshot(), x.Rule().ID, x.Name)
	if rule == nil {
		return nil // the next change triggers another call
	}
	// The new objects of the rule may already exist and have the same labels.
	objects = slices.DeleteFunc(objects, func(m origin.Object) bool {
		return origin.Fits(rule, m.Unstructured) && !origin.Fits(r, m.Unstructured)
	})
	if rule.Generation != nil && rule.Generation.Synchronize && !origin.CopiesAll(rule) {
		// The triggers are collected first, since the labels that will be removed hold them.
		b := f.begin(now, rule, "released", false)
		for _, t := range origin.Triggers(objects) {
			if err := b.add(ctx, t, ""); err != nil {
				return err
			}
		}
		if err := b.flush(ctx, 1); err != nil {
			return err
		}
	}
	var errs []error
	for _, u := range objects {
		if !p.Reach().Allows(u.GetNamespace()) {
			continue
		}
		if err := f.Made.Release(ctx, u.Unstructured); err != nil {
			errs = append(errs, fmt.Errorf("release %s: %w", updaterequest.ObjectText(u.Unstructured), err))
		}
	}
	return errors.Join(errs...)
}

package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/execute"
)

// settle deletes or releases the objects of rules that were deleted or now generate other objects, and writes the current rules to the
// ledger, with the checks that are still to be done. If the work for a rule fails, its old entry stays in the ledger, and the next call
// retries the work.
func (f *Follower) settle(ctx context.Context) error {
	f.settling = true
	defer func() { f.settling = false }()
	f.settled = f.Worker.Snapshot()
	today := entriesOf(f.settled)
	l, err := f.load(ctx)
	if err != nil {
		return err
	}
	var errs []error
	stays := func(id catalog.ID) bool { return f.settled.Get(id) != nil }
	rules := f.withPassed(f.resume(l.entries))
	if err := f.undoAgain(ctx); err != nil {
		errs = append(errs, err)
	}
	for _, x := range undone(rules, today, stays) {
		err := f.undo(ctx, &x)
		if err == nil {
			f.remember(x)
			continue
		}
		errs = append(errs, fmt.Errorf("objects of rule %s of policy %s: %w", x.Rule, x.Policy, err))
		today = slices.DeleteFunc(today, func(e entry) bool { return e.id() == x.id() && e.Rule == x.Rule })
		today = append(today, x.entry)
	}
	if len(errs) == 0 {
		f.forgetRules(ctx)
	}
	return errors.Join(append(errs, f.store(ctx, l, append(today, f.again...)))...)
}

// forgetRules removes deleted rules from the record of generated objects after their objects were handled.
func (f *Follower) forgetRules(ctx context.Context) {
	for _, r := range f.Worker.Ledger.Rules() {
		is := func(x entry) bool { return x.id() == r.ID && x.Rule == r.Name }
		exists := func(s *catalog.Snapshot) bool {
			_, rule := updaterequest.FindRule(s, r.ID, r.Name)
			return rule != nil
		}
		if exists(f.settled) || exists(f.Worker.Snapshot()) || slices.ContainsFunc(f.again, is) || f.hasPassed(is) || f.current(ctx, r.ID) != nil {
			continue
		}
		f.Worker.Ledger.Forget(r)
	}
}

// settleMeanwhile calls settle while other work waits for the threshold, because deletions do not count towards it.
func (f *Follower) settleMeanwhile(ctx context.Context) {
	if f.settling || f.settled == f.Worker.Snapshot() {
		return
	}
	if err := f.settle(ctx); err != nil && ctx.Err() == nil {
		f.Log.Warn("objects of deleted rules still exist", "error", err)
	}
}

// current returns an error if this replica does not have the current state of a policy. The records may be from replicas that have it.
func (f *Follower) current(ctx context.Context, id catalog.ID) error {
	if f.Worker.Stored == nil {
		return nil
	}
	differs, err := f.Worker.Stored.Differs(ctx, id, f.Worker.Snapshot().Get(id))
	if err == nil && differs {
		err = errors.New("this replica does not have the current policy, will retry")
	}
	return err
}

func (f *Follower) undo(ctx context.Context, x *undo) error {
	if err := f.current(ctx, x.id()); err != nil {
		return err
	}
	p, r := x.program()
	all, err := f.Worker.Downstream(ctx, p, r, execute.Which{})
	if err != nil {
		return err
	}
	if x.keepCopies {
		all.Keep(func(c mark.Claim) bool { return c.Source == "" })
	}
	f.Worker.ReportUnproved(p, r, all.Unproved...)
	objects := all.Proved
	if !x.release {
		if len(objects) > 0 {
			f.Log.Info("deleting the objects of a deleted rule", "policy", x.Policy, "rule", x.Rule, "objects", len(objects))
		}
		return f.Worker.Remove(ctx, p, objects)
	}
	now, rule := updaterequest.FindRule(f.Worker.Snapshot(), x.id(), x.Rule)
	if rule == nil {
		return nil // the next change triggers another call
	}
	// The new objects of the rule may already exist and have the same labels.
	objects = slices.DeleteFunc(objects, func(m execute.Object) bool {
		return execute.Fits(rule, m.Unstructured) && !execute.Fits(r, m.Unstructured)
	})
	if rule.Generation != nil && rule.Generation.Synchronize && !execute.CopiesAll(rule) {
		// The triggers are collected first, since the labels that will be removed hold them.
		b := &batches{f: f, program: now, rule: rule, ctx: ctx, why: "released"}
		for _, t := range execute.TriggersIn(objects) {
			if err := b.add(t); err != nil {
				return err
			}
		}
		if err := b.flush(); err != nil {
			return err
		}
	}
	var errs []error
	for _, u := range objects {
		if !p.Reach().Allows(u.GetNamespace()) {
			continue
		}
		if err := f.release(ctx, u.Unstructured); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("release %s: %w", execute.ObjectText(u.Unstructured), err))
		}
	}
	return errors.Join(errs...)
}

// release removes the rule's labels and mark from an object. It reads the complete object, and includes the version that it read in the
// write.
func (f *Follower) release(ctx context.Context, found *unstructured.Unstructured) error {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(found.GroupVersionKind())
	if err := f.Worker.Client.Get(ctx, client.ObjectKeyFromObject(found), u); err != nil || u.GetUID() != found.GetUID() {
		return err
	}
	labels := u.GetLabels()
	for _, name := range []string{"policy-name", "policy-namespace", "rule-name"} {
		delete(labels, execute.LabelPrefix+name)
	}
	u.SetLabels(labels)
	annotations := u.GetAnnotations()
	delete(annotations, mark.Annotation)
	u.SetAnnotations(annotations)
	if err := f.Worker.Client.Update(ctx, u); err != nil {
		return err
	}
	f.Worker.Ledger.Drop(string(u.GetUID()))
	return nil
}

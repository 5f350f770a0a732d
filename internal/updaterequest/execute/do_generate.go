package execute

import (
	"context"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
)

// doGenerate writes the objects of a generate rule for one trigger. If the trigger no longer matches, it deletes the objects
// of a synchronizing rule.
func (w *Worker) doGenerate(ctx context.Context, t *task) error {
	req, err := w.read.request(ctx, t)
	if isGone(err) {
		if !t.rule.Generation.Synchronize {
			return nil
		}
		if t.only != nil {
			w.Made.ReportUnproved(t.program, t.rule, t.only)
			return nil
		}
		// There may be no UpdateRequest for the deletion of the trigger.
		return w.removeFor(ctx, t, ceased{deleted: true, before: t.before()})
	}
	if err != nil {
		return err
	}
	if object, err := req.Subject(); err == nil && req.Operation != policy.Delete && terminating(object) {
		return nil
	}
	t.made = t.u.Spec.Context.AdmissionRequestInfo.Operation == admissionv1.Update
	return w.generateFor(ctx, t, req)
}

func terminating(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	return metadata["deletionTimestamp"] != nil
}

// generateFor writes the objects of the rule, and writes them again if their sources changed meanwhile, because the handler of such a
// change only finds objects that already exist.
func (w *Worker) generateFor(ctx context.Context, t *task, req *policy.Request) error {
	if !t.rule.Generation.Synchronize {
		_, err := w.generateOnce(ctx, t, req)
		return err
	}
	if err := w.Made.Record.EnsureRule(ctx, t.program, t.rule); err != nil {
		return err
	}
	for range updaterequest.Attempts {
		t.sources = w.Planner.sourceReads(t)
		copied, err := w.generateOnce(ctx, t, req)
		if err != nil {
			return err
		}
		changed, err := t.sources.outdated(ctx, copied)
		switch gone := (sourceGoneError{}); {
		case errors.As(err, &gone):
			copies, err := w.Planner.copies(ctx, t, gone.source)
			if err != nil {
				return err
			}
			return w.Made.Remove(ctx, t.program, copies)
		case err != nil:
			return err
		case !changed:
			return w.sameRule(t)
		}
		t.made = true
	}
	return meanwhile("the source of rule " + t.rule.Name)
}

// sameRule returns an error if the policy has changed since the work began.
func (w *Worker) sameRule(t *task) error {
	now, _ := updaterequest.FindRule(w.Snapshot(), catalog.IDOf(t.program), t.Rule)
	if now != nil && (now.UID != t.program.UID || now.Generation != t.program.Generation) {
		return meanwhile("policy " + t.u.Spec.Policy)
	}
	return nil
}

// generateOnce writes the objects of the rule once, and returns the copied sources.
func (w *Worker) generateOnce(ctx context.Context, t *task, req *policy.Request) (copied []policy.Source, err error) {
	out := w.Planner.evaluate(ctx, t, req)
	var errs []error
	for i := range out.Results {
		if r := &out.Results[i]; r.Status == policy.StatusError {
			errs = append(errs, errors.New(r.Message))
		}
	}
	w.report.skips(req, out.Results)
	if t.only != nil && len(errs) == 0 && !confine(&out, t.only) {
		w.Made.ReportUnproved(t.program, t.rule, t.only)
		return nil, nil
	}
	for i := range out.Work {
		switch x := &out.Work[i]; x.Kind {
		case policy.WorkGenerate:
			var done []policy.Generated
			for j := range x.Generated {
				err := w.apply.write(ctx, t, &x.Generated[j])
				if errors.Is(err, errLeftAlone) {
					continue
				}
				if done = append(done, x.Generated[j]); err != nil {
					errs = append(errs, err)
				}
				if source := x.Generated[j].Source; source != nil {
					copied = append(copied, *source)
				}
			}
			x.Generated = done
			if errs = append(errs, x.Err); t.rule.Generation.Exact && t.rule.Generation.Synchronize && t.only == nil && errors.Join(errs...) == nil {
				errs = append(errs, w.prune(ctx, t, done))
			}
		case policy.WorkDeleteDownstream:
			errs = append(errs, w.removeFor(ctx, t, ceased{before: t.before()}))
		}
	}
	err = errors.Join(errs...)
	w.report.result(t, req, &out, err)
	if err != nil {
		w.report.failure(event.GenerateController, t, updaterequest.Reference(t.Trigger), err)
	}
	return copied, err
}

// prune deletes the objects of the trigger that the rule no longer generates.
func (w *Worker) prune(ctx context.Context, t *task, made []policy.Generated) error {
	stale, err := w.Planner.stale(ctx, t, made)
	return errors.Join(err, w.Made.Remove(ctx, t.program, stale))
}

// removeFor deletes the objects that a rule generated for a trigger.
func (w *Worker) removeFor(ctx context.Context, t *task, why ceased) error {
	former, err := w.Planner.former(ctx, t, why)
	if err != nil {
		return err
	}
	return w.Made.Remove(ctx, t.program, former)
}

// doDelete deletes the objects of a trigger that was deleted or no longer matches. It checks this first, because the request that
// requested the work may have been denied.
func (w *Worker) doDelete(ctx context.Context, t *task) error {
	stored := t.stored()
	object, err := t.reads.live(ctx, t.Trigger)
	deleted := true
	switch {
	case isGone(err):
	case err != nil:
		return err
	case object.GetDeletionTimestamp() != nil:
	case stored == nil:
		w.Log.Info("generated objects are not deleted: their trigger exists, and no request shows that the rule stopped matching", "policy", t.u.Spec.Policy, "rule", t.Rule, "trigger", updaterequest.Text(t.Trigger))
		return nil
	case stored.Operation == "DELETE":
		return notYetError{"the trigger is not deleted"}
	default:
		out := w.Planner.evaluate(ctx, t, w.read.admitted(t, stored, object.Object))
		for i := range out.Work {
			if out.Work[i].Kind == policy.WorkGenerate {
				return notYetError{"the trigger still matches"}
			}
		}
		for i := range out.Results {
			if r := &out.Results[i]; r.Status == policy.StatusError {
				return errors.New(r.Message) // objects are kept if the rule cannot be evaluated
			}
		}
		if t.rule.Needs.User && len(out.Work) == 0 {
			// The rule does not match this requester, so the objects of other requesters stay.
			return notYetError{"the trigger still matches"}
		}
		deleted = false
	}
	if err := w.removeFor(ctx, t, ceased{deleted: deleted, before: t.before()}); err != nil {
		w.report.failure(event.GenerateController, t, updaterequest.Reference(t.Trigger), err)
		return err
	}
	return nil
}

// doSource handles a change of a copied source: it writes the copies again for their triggers, or deletes them if the source was deleted.
func (w *Worker) doSource(ctx context.Context, t *task) error {
	source := t.u.Spec.Resource
	object, err := w.read.live(ctx, source)
	deleted := isGone(err)
	stored := t.u.Spec.Context.AdmissionRequestInfo.AdmissionRequest
	switch {
	case deleted:
	case err != nil:
		return err
	case object.GetDeletionTimestamp() != nil:
		deleted = true
	case t.DeleteDownstream:
		return notYetError{"the source is not deleted"}
	case stored != nil && t.awaits(stored, object.GetResourceVersion()):
		return notYetError{"the update of the source is not stored"}
	}
	copies, err := w.Made.Of(ctx, t.program, t.rule, origin.Which{Source: source.UID})
	if err != nil {
		return err
	}
	copies.Filter(func(c mark.Claim) bool { return c.Source != "" && c.Source == string(source.UID) })
	w.Made.ReportUnproved(t.program, t.rule, copies.Unproved...)
	if deleted {
		if !t.rule.Generation.Synchronize {
			return nil
		}
		err := w.Made.Remove(ctx, t.program, copies.Proved)
		if err != nil {
			w.report.failure(event.GenerateController, t, updaterequest.Reference(source), err)
		}
		return err
	}
	copies.Filter(func(c mark.Claim) bool { return c.Asked || !t.rule.AsksRequester() })
	triggers := origin.Triggers(copies.Proved)
	t.reads, t.follows = w.read.reads(triggers), object
	errs := make([]error, len(triggers))
	updaterequest.Parallel(len(triggers), parallel, func(i int) { errs[i] = w.again(ctx, t, triggers[i]) })
	var others []kyvernov2.ResourceSpec
	for i, err := range errs {
		if other := (elsewhereError{}); errors.As(err, &other) {
			if other.lapsed {
				t.lapsed = append(t.lapsed, kyvernov2.RuleContext{Rule: t.Rule, Trigger: triggers[i], Synchronize: true})
			} else {
				others = append(others, triggers[i])
			}
			errs[i] = nil
		}
	}
	return errors.Join(append(errs, w.end.leave(ctx, t, others))...)
}

// again writes the objects of a trigger again. If the trigger was deleted, another UpdateRequest handles that.
func (w *Worker) again(ctx context.Context, t *task, trigger kyvernov2.ResourceSpec) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("rule %s panicked: %v", t.Rule, v)
		}
	}()
	key := updaterequest.Key(t.u.Spec.Policy, trigger)
	unlock, err := w.keys.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	return w.held(ctx, key, func(ctx context.Context) error {
		object, err := t.reads.live(ctx, trigger)
		if isGone(err) || err == nil && object.GetDeletionTimestamp() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		one := *t
		one.Trigger, one.made = trigger, true
		return w.generateFor(ctx, &one, w.read.scanRequest(object))
	})
}

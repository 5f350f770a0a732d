package execute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/catalog"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/event"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// eval evaluates the rule of a task again, with Plan.
func (w *Worker) eval(ctx context.Context, t *task, req *policy.Request) policy.Outcome {
	root := w.Root
	if t.sources != nil {
		root = t.sources
	}
	out := w.Eval(ctx, engine.Input{
		Selections: []policy.Selection{{Program: t.program, Rules: []*policy.Rule{t.rule}}},
		Request:    req, Stages: t.rule.Stage, Plan: true, Root: root, Now: w.Now,
	})
	w.Observer.Evaluated(&out)
	return out
}

// doGenerate writes the objects of a generate rule for one trigger. If the trigger no longer matches, it deletes the objects
// of a synchronizing rule.
func (w *Worker) doGenerate(ctx context.Context, t *task) error {
	req, err := w.request(ctx, t)
	if gone := (goneError{}); asGone(err, &gone) {
		if !t.rule.Generation.Synchronize {
			return nil
		}
		if t.only != nil {
			w.ReportUnproved(t.program, t.rule, t.only)
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
	for range updaterequest.Attempts {
		t.sources = w.newSourceReads(t)
		copied, err := w.generateOnce(ctx, t, req)
		if err != nil {
			return err
		}
		changed, err := t.sources.outdated(ctx, copied)
		switch gone := (sourceGoneError{}); {
		case errors.As(err, &gone):
			return w.removeCopies(ctx, t, gone)
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
	out := w.eval(ctx, t, req)
	var errs []error
	for i := range out.Results {
		if r := &out.Results[i]; r.Status == policy.StatusError {
			errs = append(errs, errors.New(r.Message))
		}
	}
	w.reportSkips(req, out.Results)
	if t.only != nil && len(errs) == 0 && !confine(&out, t.only) {
		w.ReportUnproved(t.program, t.rule, t.only)
		return nil, nil
	}
	for i := range out.Work {
		switch x := &out.Work[i]; x.Kind {
		case policy.WorkGenerate:
			var done []policy.Generated
			for j := range x.Generated {
				err := w.apply(ctx, t, &x.Generated[j])
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
				errs = append(errs, w.prune(ctx, t, planned(done)))
			}
		case policy.WorkDeleteDownstream:
			errs = append(errs, w.removeFor(ctx, t, ceased{before: t.before()}))
		}
	}
	err = errors.Join(errs...)
	w.report(t, req, &out, err)
	if err != nil {
		w.reportFailure(event.GenerateController, t, updaterequest.Reference(t.Trigger), err)
	}
	return copied, err
}

// planned returns the objects that an evaluation planned.
func planned(made []policy.Generated) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, len(made))
	for i := range made {
		out[i] = &unstructured.Unstructured{Object: made[i].Object}
	}
	return out
}

// confine removes all work from an outcome except the work that generates one object, and reports whether there is any.
func confine(out *policy.Outcome, only *unstructured.Unstructured) bool {
	some := false
	for i := range out.Work {
		x := &out.Work[i]
		g := plannedAs(x.Generated, only)
		x.Generated = nil
		if x.Kind == policy.WorkGenerate && g != nil {
			x.Generated, some = []policy.Generated{*g}, true
		}
	}
	out.Work = slices.DeleteFunc(out.Work, func(x policy.Work) bool { return len(x.Generated) == 0 })
	return some
}

// before returns the trigger as it was in the request of the task: the object before an update or a deletion, or the object to create. It
// is nil if the request is for another object.
func (t *task) before() map[string]any {
	r := t.stored()
	switch {
	case r == nil || r.SubResource != "":
		return nil
	case r.Operation == admissionv1.Create:
		return decode(r.Object)
	}
	return decode(r.OldObject)
}

// doDelete deletes the objects of a trigger that was deleted or no longer matches. It checks this first, because the request that
// requested the work may have been denied.
func (w *Worker) doDelete(ctx context.Context, t *task) error {
	stored := t.stored()
	object, err := t.reads.live(ctx, t.Trigger)
	deleted := true
	switch gone := (goneError{}); {
	case asGone(err, &gone):
	case err != nil:
		return err
	case object.GetDeletionTimestamp() != nil:
	case stored == nil:
		w.Log.Info("generated objects are not deleted: their trigger exists, and no request shows that the rule stopped matching", "policy", t.u.Spec.Policy, "rule", t.Rule, "trigger", updaterequest.Text(t.Trigger))
		return nil
	case stored.Operation == "DELETE":
		return notYetError{"the trigger is not deleted"}
	default:
		out := w.eval(ctx, t, w.admitted(t, stored, object.Object))
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
		w.reportFailure(event.GenerateController, t, updaterequest.Reference(t.Trigger), err)
		return err
	}
	return nil
}

// doSource handles a change of a copied source: it writes the copies again for their triggers, or deletes them if the source was deleted.
func (w *Worker) doSource(ctx context.Context, t *task) error {
	source := t.u.Spec.Resource
	object, err := w.live(ctx, source)
	gone := goneError{}
	deleted := asGone(err, &gone)
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
	copies, err := w.Downstream(ctx, t.program, t.rule, Which{Source: source.UID})
	if err != nil {
		return err
	}
	copies.Keep(func(c mark.Claim) bool { return c.Source != "" && c.Source == string(source.UID) })
	w.ReportUnproved(t.program, t.rule, copies.Unproved...)
	if deleted {
		if !t.rule.Generation.Synchronize {
			return nil
		}
		err := w.Remove(ctx, t.program, copies.Proved)
		if err != nil {
			w.reportFailure(event.GenerateController, t, updaterequest.Reference(source), err)
		}
		return err
	}
	copies.Keep(func(c mark.Claim) bool { return c.Asked || !t.rule.AsksRequester() })
	triggers := TriggersIn(copies.Proved)
	t.reads, t.follows = w.NewReads(triggers), object
	errs := make([]error, len(triggers))
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	for i, trigger := range triggers {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			errs[i] = w.again(ctx, t, trigger)
		})
	}
	running.Wait()
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
	return errors.Join(append(errs, w.leave(ctx, t, others))...)
}

// again writes the objects of a trigger again. If the trigger was deleted, another UpdateRequest handles that.
func (w *Worker) again(ctx context.Context, t *task, trigger kyvernov2.ResourceSpec) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("rule %s panicked: %v", t.Rule, v)
		}
	}()
	key := updaterequest.Key(t.u.Spec.Policy, trigger)
	defer w.lock(key)()
	return w.held(ctx, key, func(ctx context.Context) error {
		object, err := t.reads.live(ctx, trigger)
		if gone := (goneError{}); asGone(err, &gone) || err == nil && object.GetDeletionTimestamp() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		one := *t
		one.Trigger, one.made = trigger, true
		return w.generateFor(ctx, &one, w.ScanRequest(object))
	})
}

// reportGenerated records the events of one created or changed object.
func (w *Worker) reportGenerated(t *task, u *unstructured.Unstructured) {
	about := event.Reference{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName(), UID: string(u.GetUID())}
	w.Events.Record(event.Event{
		Regarding: event.PolicyReference(t.program), Related: about, Reason: event.PolicyApplied, Action: event.ResourceGenerated,
		Note: "resource generated", Controller: event.GenerateController,
	})
	w.Events.Record(event.Event{
		Regarding: about, Reason: event.PolicyApplied, Action: event.None, Controller: event.GenerateController,
		Note: fmt.Sprintf("Created %s %s as a result of applying policy %s/%s", about.Kind, about.Name, t.program.Key(), t.rule.Name),
	})
}

// reportFailure records the event for failed work. Work that only has to wait gets no event.
func (w *Worker) reportFailure(controller string, t *task, about event.Reference, err error) {
	if t.passes(err) {
		return
	}
	w.Events.Record(event.Event{
		Regarding: event.PolicyReference(t.program), Related: about, Reason: event.PolicyError, Action: event.None, Controller: controller,
		Note: fmt.Sprintf("policy %s/%s error: %v", t.program.Key(), t.rule.Name, err),
	})
}

// reportSkips records the events for exceptions.
func (w *Worker) reportSkips(req *policy.Request, results []policy.Result) {
	for i := range results {
		if len(results[i].Exceptions) == 0 || results[i].Status != policy.StatusSkip {
			continue
		}
		for _, e := range event.From(req, results[i:i+1], event.Context{Controller: event.GenerateController}) {
			w.Events.Record(e)
		}
	}
}

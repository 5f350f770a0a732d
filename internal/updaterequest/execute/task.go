package execute

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kyvernov2 "ephor.invalid/ephor/api/kyverno/v2"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
)

// task is the work of one rule of an UpdateRequest for one trigger.
type task struct {
	kyvernov2.RuleContext
	u       *kyvernov2.UpdateRequest
	program *policy.Program
	rule    *policy.Rule
	waited  time.Duration // the time since the UpdateRequest was first seen
	// conflicts is the number of earlier attempts that ended in conflicts only.
	conflicts int
	hops      int // the number of consecutive writes of our own that led to the task
	reads     *reads
	written   *written                   // the targets of a mutate rule that earlier attempts have changed
	sources   *sourceReads               // the sources that a synchronizing rule reads
	follows   *unstructured.Unstructured // the source whose change caused the task
	made      bool                       // the generated objects most likely exist already
	only      *unstructured.Unstructured // if set, only this object is written: only its labels name the trigger, which is no proof
	lapsed    []kyvernov2.RuleContext    // the work that was in progress when this replica lost its key
}

// notYetError means that the work must wait, and names the reason.
type notYetError struct{ reason string }

func (e notYetError) Error() string { return e.reason }

func isNotYet(err error) bool { return errors.As(err, &notYetError{}) }

// passes reports whether the only errors are those that the next attempt will probably not have, and that are not reported: the work has to
// wait, or has a conflict with another writer for the first times.
func (t *task) passes(err error) bool {
	return all(err, isNotYet) || t.conflicts < updaterequest.Attempts && onlyConflicts(err)
}

// one executes one task.
func (w *Worker) one(ctx context.Context, t *task) (err error) {
	defer func() {
		if v := recover(); v != nil {
			w.Log.Error("the work of a rule panicked", "policy", t.u.Spec.Policy, "rule", t.Rule, "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("rule %s panicked: %v", t.Rule, v)
		}
	}()
	key := updaterequest.Key(t.u.Spec.Policy, t.Trigger)
	if updaterequest.OfSource(t.u) {
		return w.held(ctx, key, func(ctx context.Context) error { return w.do(ctx, t, w.doSource) })
	}
	unlock, err := w.keys.Lock(ctx, key) // for a source, each trigger is locked separately
	if err != nil {
		return err
	}
	defer unlock()
	err = w.held(ctx, key, func(ctx context.Context) error { return w.do(ctx, t, w.doTrigger) })
	if other := (elsewhereError{}); errors.As(err, &other) && other.lapsed {
		t.lapsed = append(t.lapsed, t.RuleContext)
	}
	return err
}

// do executes one task whose key this replica holds.
func (w *Worker) do(ctx context.Context, t *task, execute func(context.Context, *task) error) error {
	t.program, t.rule = updaterequest.FindRule(w.Snapshot(), updaterequest.PolicyID(t.u.Spec.RequestType, t.u.Spec.Policy), t.Rule)
	if t.rule == nil {
		return w.withoutRule(ctx, t)
	}
	if t.hops > policy.MaxHops {
		err := hopError{t.u.Spec.Policy, t.Rule}
		w.report.failure(updaterequest.Controller(t.rule), t, updaterequest.Reference(t.Trigger), err)
		return err
	}
	err := w.entitled(ctx, t, execute)
	if later := (notYetError{}); errors.As(err, &later) && t.waited > patience {
		w.Log.Info("the work is dropped: the awaited event did not happen", "policy", t.u.Spec.Policy, "rule", t.Rule, "reason", later.reason)
		return nil
	}
	return err
}

// withoutRule drops the work of a task whose rule does not exist. If the rule may exist, because this replica does not have the current
// policies, the work waits, and fails in the end.
func (w *Worker) withoutRule(ctx context.Context, t *task) error {
	if t.waited < policyPatience {
		return notYetError{"the policy does not exist"}
	}
	exists := w.Stored == nil && t.waited < catalogPatience
	if w.Stored != nil {
		id := updaterequest.PolicyID(t.u.Spec.RequestType, t.u.Spec.Policy)
		var err error
		if exists, err = w.Stored.Differs(ctx, id, t.program); err != nil {
			return err
		}
	}
	switch {
	case exists && t.waited < catalogPatience:
		return notYetError{"this replica does not have the current policy"}
	case exists:
		return fmt.Errorf("rule %s of policy %s cannot be executed: this replica does not have the current policy", t.Rule, t.u.Spec.Policy)
	}
	w.Log.Info("the work is dropped, since its rule was deleted", "policy", t.u.Spec.Policy, "rule", t.Rule)
	return nil
}

// entitled executes a task if entitle allows it.
func (w *Worker) entitled(ctx context.Context, t *task, execute func(context.Context, *task) error) error {
	if !updaterequest.OfSource(t.u) {
		if ok, err := w.Planner.entitle(ctx, t); !ok {
			return err
		}
	}
	return execute(ctx, t)
}

// doTrigger executes the work for one trigger.
func (w *Worker) doTrigger(ctx context.Context, t *task) error {
	switch {
	case t.rule.Stage.Has(policy.StageMutateExisting):
		return w.doMutateExisting(ctx, t)
	case t.DeleteDownstream:
		return w.doDelete(ctx, t)
	}
	return w.doGenerate(ctx, t)
}

package execute

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/mark"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/updaterequest"
	"ephor.invalid/ephor/internal/updaterequest/origin"
	"ephor.invalid/ephor/internal/world"
)

// Planner evaluates rules, and decides which objects are written or deleted. It changes nothing. Its methods are safe for concurrent use.
type Planner struct {
	read    *reader
	made    *origin.Objects
	sources *sources
	root    world.Root
	eval    func(context.Context, engine.Input) policy.Outcome
	// evaluated is called with the outcome of each evaluation for a task.
	evaluated func(*policy.Outcome)
	now       func() time.Time
	log       *slog.Logger
}

// input returns the evaluation of one rule.
func (x *Planner) input(p *policy.Program, r *policy.Rule, req *policy.Request) engine.Input {
	return engine.Input{
		Selections: []policy.Selection{{Program: p, Rules: []*policy.Rule{r}}}, Request: req, Stages: r.Stage, Plan: true, Root: x.root, Now: x.now,
	}
}

// evaluate evaluates the rule of a task again.
func (x *Planner) evaluate(ctx context.Context, t *task, req *policy.Request) policy.Outcome {
	in := x.input(t.program, t.rule, req)
	if t.sources != nil {
		in.Root = t.sources
	}
	out := x.eval(ctx, in)
	x.evaluated(&out)
	return out
}

// Applies reports whether the rule has work for an object. If a lookup fails, it returns true, and the worker reports the failure.
func (x *Planner) Applies(ctx context.Context, p *policy.Program, r *policy.Rule, u *unstructured.Unstructured) bool {
	in := x.input(p, r, x.read.scanRequest(u))
	in.Plan = false
	out := x.eval(ctx, in)
	return len(out.Work) > 0 || slices.ContainsFunc(out.Results, func(r policy.Result) bool { return r.Status == policy.StatusError })
}

// entitle decides whether the task may be executed for its trigger. Labels or a scan may have named the trigger. It stores the limits of
// the work in the task: the trigger as named in a mark, or the one object that the rule may write.
//
//   - A request for the trigger itself is sufficient, because the worker reads the trigger before it does anything.
//   - A request for an object whose labels name the trigger is sufficient if the mark of that object proves it. Without a proof, only
//     this object is written, if the rule generates exactly this object for the trigger. A rule that depends on the requester writes
//     nothing, since the requester is unknown.
//   - For a trigger that the controller found itself, a rule that depends on the requester is only executed if it has already
//     generated an object for the trigger, for a requester that met the conditions.
func (x *Planner) entitle(ctx context.Context, t *task) (ok bool, err error) {
	if t.stored() != nil {
		return true, nil
	}
	if updaterequest.Asked(t.u) {
		object := t.disturbed()
		if err := x.read.disturbanceStored(ctx, t, object); err != nil {
			return false, err
		}
		c, proved, err := x.made.Claim(ctx, object)
		switch {
		case err != nil:
			return false, err
		case proved && origin.IsFor(c, t.program.Identity(), t.Rule, t.Trigger) && (c.Asked || !t.rule.AsksRequester()):
			t.Trigger = updaterequest.SpecIn(c.Trigger)
			return true, nil
		case t.rule.Generation == nil || t.rule.AsksRequester():
			x.made.ReportUnproved(t.program, t.rule, object)
			return false, nil
		}
		t.only = object
		return true, nil
	}
	if !t.rule.AsksRequester() {
		return true, nil
	}
	if t.rule.Generation != nil {
		found, err := x.made.Of(ctx, t.program, t.rule, origin.Which{Trigger: t.Trigger})
		if err != nil {
			return false, err
		}
		for _, m := range found.Proved {
			if m.Claim.Asked && origin.IsFor(m.Claim, t.program.Identity(), t.Rule, t.Trigger) {
				t.Trigger = updaterequest.SpecIn(m.Claim.Trigger)
				return true, nil
			}
		}
	}
	x.log.Info("a rule that depends on the requester is not executed for an object without a request", "policy", t.program.Key(), "rule", t.Rule, "trigger", updaterequest.Text(t.Trigger))
	return false, nil
}

// makes returns the objects that the rule generates for an object as a trigger, for any requester. It returns nil if they are unknown,
// or depend on the requester.
func (x *Planner) makes(ctx context.Context, p *policy.Program, r *policy.Rule, trigger *unstructured.Unstructured) []policy.Generated {
	if r.AsksRequester() {
		return nil
	}
	out := x.eval(ctx, x.input(p, r, x.read.scanRequest(trigger)))
	var made []policy.Generated
	for i := range out.Work {
		if x := &out.Work[i]; x.Kind == policy.WorkGenerate {
			made = append(made, x.Generated...)
		}
	}
	return made
}

// Proofs returns a function that proves the origin of unmarked objects with the labels of a rule: the trigger in the labels exists with that
// UID, and the rule generates exactly this object for it. ok is false if an object is not proved.
func (x *Planner) Proofs(objects []*unstructured.Unstructured) func(context.Context, *policy.Program, *policy.Rule, *unstructured.Unstructured) (e origin.Entry, ok bool, err error) {
	reads := x.read.reads(origin.TriggersOf(objects...))
	return func(ctx context.Context, p *policy.Program, r *policy.Rule, u *unstructured.Unstructured) (e origin.Entry, ok bool, err error) {
		triggers := origin.TriggersOf(u)
		if len(triggers) == 0 || r.AsksRequester() || !p.Reach().Allows(u.GetNamespace()) {
			return e, false, nil
		}
		trigger, err := reads.live(ctx, triggers[0])
		if err != nil {
			if isGone(err) {
				err = nil
			}
			return e, false, err
		}
		g := plannedAs(x.makes(ctx, p, r, trigger), u)
		if g == nil {
			return e, false, nil
		}
		return origin.EntryFor(p, r, updaterequest.SpecOf(trigger), g), true, nil
	}
}

// ceased describes why the objects of a trigger are deleted.
type ceased struct {
	// deleted: the trigger does not exist; this is checked again for each trigger that a mark names. Otherwise the trigger exists, and the
	// rule was evaluated for its current state.
	deleted bool
	// before is the state of the trigger when the rule applied; nil if unknown. If the rule generates an unmarked object for this
	// state, the object is older than marks, or has lost its mark.
	before map[string]any
}

// former returns the objects that a rule generated for a trigger and that are to be deleted. It reports objects with labels but without proof.
func (x *Planner) former(ctx context.Context, t *task, why ceased) ([]origin.Object, error) {
	if t.Trigger.UID == "" {
		return nil, nil // the objects of this trigger cannot be distinguished from those of others
	}
	all, err := x.made.Of(ctx, t.program, t.rule, origin.Which{Trigger: t.Trigger})
	if err != nil {
		return nil, err
	}
	all.Filter(func(c mark.Claim) bool { return origin.IsFor(c, t.program.Identity(), t.rule.Name, t.Trigger) })
	if len(all.Unproved) > 0 {
		x.identify(ctx, t, why.before, &all)
	}
	if why.deleted {
		there := map[mark.Object]bool{}
		for _, m := range all.Proved {
			trigger := m.Claim.Trigger
			if _, looked := there[trigger]; looked {
				continue
			}
			live, err := x.read.live(ctx, updaterequest.SpecIn(trigger))
			if err != nil && !isGone(err) {
				return nil, err
			}
			there[trigger] = err == nil && live.GetDeletionTimestamp() == nil
		}
		all.Filter(func(c mark.Claim) bool { return !there[c.Trigger] })
	}
	x.made.ReportUnproved(t.program, t.rule, all.Unproved...)
	return all.Proved, nil
}

// identify moves objects to the proved ones if the rule generates them for the former state of the trigger.
func (x *Planner) identify(ctx context.Context, t *task, before map[string]any, all *origin.Found) {
	u := &unstructured.Unstructured{Object: before}
	if before == nil || u.GetUID() != t.Trigger.UID {
		return
	}
	u.SetGroupVersionKind(schema.FromAPIVersionAndKind(t.Trigger.APIVersion, t.Trigger.Kind))
	made := x.makes(ctx, t.program, t.rule, u)
	all.Unproved = slices.DeleteFunc(all.Unproved, func(o *unstructured.Unstructured) bool {
		if plannedAs(made, o) == nil {
			return false
		}
		all.Proved = append(all.Proved, origin.Object{Unstructured: o, Claim: origin.ClaimFor(t.program, t.rule, updaterequest.SpecOf(u), nil)})
		return true
	})
}

// stale returns the recorded objects of the trigger that the rule no longer generates (Generation.Exact).
func (x *Planner) stale(ctx context.Context, t *task, made []policy.Generated) (stale []origin.Object, err error) {
	var errs []error
	for _, e := range x.made.Record.OfTrigger(origin.RuleOf(t.program, t.rule), string(t.Trigger.UID)) {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(e.Object.APIVersion)
		object.SetKind(e.Object.Kind)
		object.SetNamespace(e.Object.Namespace)
		object.SetName(e.Object.Name)
		if plannedAs(made, object) != nil {
			continue
		}
		u, err := x.made.LookUp(ctx, e.Object)
		switch {
		case err != nil:
			errs = append(errs, err)
		case u != nil:
			stale = append(stale, origin.Object{Unstructured: u, Claim: e.Claim})
		}
	}
	if len(stale) > 0 {
		x.log.Info("deleting objects that a rule no longer generates", "policy", t.program.Key(), "rule", t.rule.Name, "trigger", updaterequest.Text(t.Trigger), "objects", len(stale))
	}
	return stale, errors.Join(errs...)
}

// sameObject reports whether two objects have the same group, kind, namespace and name.
func sameObject(a, b *unstructured.Unstructured) bool {
	return a.GroupVersionKind().GroupKind() == b.GroupVersionKind().GroupKind() && a.GetNamespace() == b.GetNamespace() && a.GetName() == b.GetName()
}

// plannedAs returns the planned object with the identity of u, or nil if there is none.
func plannedAs(made []policy.Generated, u *unstructured.Unstructured) *policy.Generated {
	for i := range made {
		if sameObject(&unstructured.Unstructured{Object: made[i].Object}, u) {
			return &made[i]
		}
	}
	return nil
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

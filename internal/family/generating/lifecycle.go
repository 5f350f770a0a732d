package generating

import (
	"context"
	"slices"

	"ephor.invalid/ephor/internal/celrule"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/value"
)

// follow makes a synchronizing rule detect objects that are no longer triggers. The rule requests the deletion of the generated objects
// when the trigger is deleted, or no longer matches after an update. On DELETE the rule generates objects only if the constraints list
// that operation by name.
func (g *generator) follow(rule *policy.Rule) {
	sync := rule.Generation.Synchronize
	onDelete := slices.ContainsFunc(rule.Targets, func(t policy.Target) bool {
		return len(t.Operations) < everyOperation && slices.Contains(t.Operations, policy.Delete)
	})
	match, eval := rule.Match, rule.Eval
	undo := policy.Work{Kind: policy.WorkDeleteDownstream, Synchronize: true, SkipBackground: g.work.SkipBackground}
	rule.Eval = func(c *policy.Call) policy.Yield {
		r := c.Request
		switch {
		case sync && r.Origin == policy.FromScan:
			if rule.Needs.User && r.User == nil {
				return policy.Yield{} // the rule needs the requester to know whether the object is a trigger
			}
			return g.again(c, match, eval, undo)
		case r.Operation == policy.Delete && onDelete:
			return eval(c)
		case r.Operation == policy.Delete:
			if sync && !r.DryRun {
				return policy.Yield{Work: []policy.Work{undo}}
			}
			return policy.Yield{}
		case r.Operation != policy.Update || !sync || r.OldObject == nil:
			return eval(c)
		}
		if ok, err := match(c.Context(), r); err != nil {
			return failed(err)
		} else if ok {
			if y := eval(c); y.Status != policy.StatusNone {
				return y
			}
		}
		// If the answer is unknown for either object, nothing is deleted.
		if still, err := g.isTrigger(c, r.Object); still || err != nil || r.DryRun {
			return policy.Yield{}
		}
		if was, err := g.isTrigger(c, r.OldObject); !was || err != nil {
			return policy.Yield{}
		}
		return policy.Yield{Work: []policy.Work{undo}}
	}
	if !sync {
		return
	}
	rule.Match = func(ctx context.Context, r *policy.Request) (bool, error) {
		if r.Origin == policy.FromScan {
			return true, nil // Eval determines whether the object still is a trigger
		}
		if ok, err := match(ctx, r); ok || err != nil {
			return ok, err
		}
		if r.Operation != policy.Update && r.Operation != policy.Delete || r.OldObject == nil {
			return false, nil
		}
		return g.selects(ctx, as(r, r.OldObject))
	}
	// The index checks the new object and the operation. It would exclude rules that matched only the old object.
	rule.Excludes = nil
	rule.Targets = slices.Clone(rule.Targets)
	for i := range rule.Targets {
		t := &rule.Targets[i]
		t.MatchLabels = nil
		t.Operations = slices.Clone(t.Operations)
		for _, o := range []policy.Operation{policy.Update, policy.Delete} {
			if !slices.Contains(t.Operations, o) {
				t.Operations = append(t.Operations, o)
			}
		}
	}
}

// again evaluates the rule for an existing object. If a change of the policy means that the object is no longer a trigger, a planned
// evaluation requests the deletion of its generated objects.
func (g *generator) again(c *policy.Call, match func(context.Context, *policy.Request) (bool, error), eval func(*policy.Call) policy.Yield, undo policy.Work) policy.Yield {
	if ok, err := match(c.Context(), c.Request); err != nil {
		return failed(err)
	} else if ok {
		if y := eval(c); y.Status != policy.StatusNone {
			return y
		}
	}
	if !c.Plan {
		return policy.Yield{}
	}
	if still, err := g.isTrigger(c, c.Request.Object); still || err != nil {
		return policy.Yield{}
	}
	return policy.Yield{Work: []policy.Work{undo}}
}

// everyOperation is the number of operations that `*` stands for. As in Kyverno, `*` does not count as listing an operation by name.
const everyOperation = 4

// as returns the request with object as its only object, to evaluate that object.
func as(r *policy.Request, object *value.Doc) *policy.Request {
	out := r.WithObject(object)
	out.Operation, out.OldObject = policy.Create, nil
	return out
}

// selects reports whether the constraints select an object, regardless of the operation.
func (g *generator) selects(ctx context.Context, r *policy.Request) (bool, error) {
	if g.objects == nil || g.namespace != "" && r.ObjectNamespace() != g.namespace {
		return false, nil
	}
	return g.objects.Match(ctx, r)
}

// isTrigger reports whether the policy generates objects for an object of the request, regardless of the operation.
func (g *generator) isTrigger(c *policy.Call, object *value.Doc) (bool, error) {
	if ok, err := g.selects(c.Context(), as(c.Request, object)); !ok || err != nil {
		return false, err
	}
	in, err := celrule.Policies.Input(c)
	if err != nil {
		return false, err
	}
	if in.Object, err = object.Value(); err != nil {
		return false, err
	}
	return g.subject.Rule.Begin(c.Context(), c.Meter, in).Applies()
}

package generating

import (
	"context"
	"slices"

	"github.com/ephor-dev/ephor/internal/celrule"
	"github.com/ephor-dev/ephor/internal/policy"
	"github.com/ephor-dev/ephor/internal/value"
)

// follow makes a rule that synchronizes see when its trigger ceases to be one: an update after which the object no longer matches,
// though it did, and a deletion ask for the deletion of what was generated. On DELETE nothing is generated unless the constraints list
// the operation by its name.
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
				return policy.Yield{} // the requester is not known, so neither is whether the object is a trigger
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
		// What is not known, of either object, undoes nothing.
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
			return true, nil // Eval finds out whether the object is a trigger still
		}
		if ok, err := match(ctx, r); ok || err != nil {
			return ok, err
		}
		if r.Operation != policy.Update && r.Operation != policy.Delete || r.OldObject == nil {
			return false, nil
		}
		return g.selects(ctx, as(r, r.OldObject))
	}
	// The index looks at the new object and the operation; what it would leave out may have matched before.
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

// again evaluates the rule for an existing object. A planned evaluation for an object that is no longer a trigger, since the policy has
// changed, asks for the deletion of what was generated for it.
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

// everyOperation is how many operations `*` stands for. As in Kyverno it does not count as the name of one.
const everyOperation = 4

// as returns the request with one of its objects only, to ask about that object.
func as(r *policy.Request, object *value.Doc) *policy.Request {
	out := r.WithObject(object)
	out.Operation, out.OldObject = policy.Create, nil
	return out
}

// selects reports whether the constraints select an object, whatever the operation.
func (g *generator) selects(ctx context.Context, r *policy.Request) (bool, error) {
	if g.objects == nil || g.namespace != "" && r.ObjectNamespace() != g.namespace {
		return false, nil
	}
	return g.objects.Match(ctx, r)
}

// isTrigger reports whether the policy generates for an object of the request, whatever the operation.
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

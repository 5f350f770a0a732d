package rule

import (
	"context"
	"slices"

	kyvernov1 "ephor.invalid/ephor/api/kyverno/v1"
	"ephor.invalid/ephor/internal/policy"
)

// newLifecycle makes a synchronizing generate rule detect objects that are no longer triggers. The rule requests the deletion of the
// generated objects when the trigger is deleted, or no longer matches after an update. On DELETE the rule generates objects only if it
// lists that operation.
//
// The client that changes or deletes a trigger need not match the rule: it may be the garbage collector, or an excluded requester. Whether
// an object is still a trigger depends on the object alone (anonymous).
func newLifecycle(r *kyvernov1.Rule, out *policy.Rule) {
	out.OnBackground = !skipsBackground(r)
	sync := r.Generation.Synchronize
	onDelete := slices.ContainsFunc(out.Targets, func(t policy.Target) bool { return slices.Contains(t.Operations, policy.Delete) })
	personal := asksRequester(r)
	match, eval := out.Match, out.Eval
	matchObject := func(ctx context.Context, req *policy.Request) (bool, error) {
		if personal {
			req = anonymous(req)
		}
		return match(ctx, req)
	}
	undo := policy.Work{Kind: policy.WorkDeleteDownstream, Synchronize: true, SkipBackground: !out.OnBackground}

	// applied reports whether the rule generates objects for the request. If that is unknown, it returns false, and nothing is deleted.
	applied := func(c *policy.Call, req *policy.Request) bool {
		ok, err := matchObject(c.Context(), req)
		if err != nil || !ok {
			return false
		}
		return eval(&policy.Call{Env: c.Env, Request: req, Program: c.Program, Rule: c.Rule}).Status == policy.StatusPass
	}
	stopped := func(c *policy.Call) []policy.Work {
		if applied(c, before(c.Request)) && !c.Request.DryRun {
			return []policy.Work{undo}
		}
		return nil
	}
	out.Eval = func(c *policy.Call) policy.Yield {
		req := c.Request
		switch {
		case req.Operation == policy.Delete && !onDelete:
			// Preconditions are ignored, so that objects that were generated before the preconditions became false, or only for
			// CREATE, are also deleted with their trigger.
			if sync && !req.DryRun {
				return policy.Yield{Work: []policy.Work{undo}}
			}
			return policy.Yield{}
		case req.Operation != policy.Update || !sync || req.OldObject == nil:
			return eval(c)
		}
		if ok, err := match(c.Context(), req); err != nil {
			return failed("failed to match the resource: ", err)
		} else if ok {
			y := eval(c)
			if y.Status != policy.StatusSkip {
				return y
			}
			y.Work = stopped(c)
			return y
		}
		if personal {
			if still, err := matchObject(c.Context(), req); err != nil {
				return failed("failed to match the resource: ", err)
			} else if still && eval(c).Status != policy.StatusSkip {
				return policy.Yield{} // a requester who does not match changed the object, and it is still a trigger
			}
		}
		return policy.Yield{Work: stopped(c)}
	}
	if !sync {
		return
	}
	out.Match = func(ctx context.Context, req *policy.Request) (bool, error) {
		if req.Operation == policy.Delete && !onDelete {
			return matchObject(ctx, req)
		}
		ok, err := match(ctx, req)
		if ok || err != nil || req.Operation != policy.Update || req.OldObject == nil {
			return ok, err
		}
		return matchObject(ctx, before(req))
	}
	// The index checks the new object. It would exclude rules that matched only the old object.
	out.Excludes = nil
	out.Targets = slices.Clone(out.Targets)
	for i := range out.Targets {
		out.Targets[i].MatchLabels = nil
	}
}

// before returns the request with the old object in place of the new one: the same operation by the same user.
func before(req *policy.Request) *policy.Request { return req.WithObject(req.OldObject) }

// anonymous returns the request without its requester, so that matching depends only on the object.
func anonymous(req *policy.Request) *policy.Request {
	out := req.WithObject(req.Object)
	out.User, out.ResolveRoles = nil, nil
	return out
}

// asksRequester reports whether the match or the exclude block of the rule has conditions on the requester.
func asksRequester(r *kyvernov1.Rule) bool {
	blocks := []kyvernov1.MatchResources{r.MatchResources}
	if r.ExcludeResources != nil {
		blocks = append(blocks, *r.ExcludeResources)
	}
	asks := func(u kyvernov1.UserInfo) bool { return len(u.Roles)+len(u.ClusterRoles)+len(u.Subjects) > 0 }
	return slices.ContainsFunc(blocks, func(b kyvernov1.MatchResources) bool {
		some := func(f kyvernov1.ResourceFilter) bool { return asks(f.UserInfo) }
		return asks(b.UserInfo) || slices.ContainsFunc(b.Any, some) || slices.ContainsFunc(b.All, some)
	})
}

package rule

import (
	"context"
	"slices"

	kyvernov1 "github.com/ephor-dev/ephor/api/kyverno/v1"
	"github.com/ephor-dev/ephor/internal/policy"
)

// newLifecycle makes a synchronizing generate rule see when its trigger ceases to be one (language reference §6.2): an update
// after which the object no longer matches, though it did, and a deletion ask for the deletion of what was generated.
// On DELETE nothing is generated unless the rule lists the operation.
func newLifecycle(r *kyvernov1.Rule, out *policy.Rule) {
	out.OnBackground = !skipsBackground(r)
	sync := r.Generation.Synchronize
	onDelete := slices.ContainsFunc(out.Targets, func(t policy.Target) bool { return slices.Contains(t.Operations, policy.Delete) })
	match, eval := out.Match, out.Eval
	undo := policy.Work{Kind: policy.WorkDeleteDownstream, Synchronize: true, SkipBackground: !out.OnBackground}

	// applied reports whether the rule generates for the request; where that cannot be told nothing is undone.
	applied := func(s *policy.Scope, req *policy.Request) bool {
		ok, err := match(s.Env.Meter.Context(), req)
		if err != nil || !ok {
			return false
		}
		return eval(policy.NewScope(s.Env, req, s.Program, s.Rule)).Status == policy.StatusPass
	}
	stopped := func(s *policy.Scope) []policy.Work {
		if applied(s, before(s.Request)) && !s.Request.DryRun {
			return []policy.Work{undo}
		}
		return nil
	}
	out.Eval = func(s *policy.Scope) policy.Yield {
		req := s.Request
		switch {
		case req.Operation == policy.Delete && !onDelete:
			// Preconditions do not count: what was made before they failed, or for CREATE only, goes with its trigger, too.
			if sync && !req.DryRun {
				return policy.Yield{Work: []policy.Work{undo}}
			}
			return policy.Yield{}
		case req.Operation != policy.Update || !sync || req.OldObject == nil:
			return eval(s)
		}
		if ok, err := match(s.Env.Meter.Context(), req); err != nil {
			return failed("failed to match the resource: ", err)
		} else if ok {
			y := eval(s)
			if y.Status != policy.StatusSkip {
				return y
			}
			y.Work = stopped(s)
			return y
		}
		return policy.Yield{Work: stopped(s)}
	}
	if !sync {
		return
	}
	out.Match = func(ctx context.Context, req *policy.Request) (bool, error) {
		ok, err := match(ctx, req)
		if ok || err != nil || req.Operation != policy.Update || req.OldObject == nil {
			return ok, err
		}
		return match(ctx, before(req))
	}
	// The index looks at the new object; what it would leave out may have matched before.
	out.Excludes = nil
	out.Targets = slices.Clone(out.Targets)
	for i := range out.Targets {
		out.Targets[i].MatchLabels = nil
	}
}

// before is the update with the object that it replaces: the same operation by the same user.
func before(req *policy.Request) *policy.Request { return req.WithObject(req.OldObject) }

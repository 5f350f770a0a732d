package admission

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
	"ephor.invalid/ephor/internal/world"
	"ephor.invalid/ephor/internal/world/taped"
)

// reviewResource evaluates a request with the policies of the row.
func (s *Server) reviewResource(ctx context.Context, req *policy.Request, row boundRoute) (response, error) {
	if answer, err := s.prepare(ctx, req, row); answer != nil || err != nil {
		return answerOr(answer), err
	}
	selections := row.policies.For(req, row.Route)
	spent := budget.NewRequest()
	evaluating := row.Stages &^ deferredStages
	plan := planOf(selections, evaluating)
	decision := policy.Decision{Allowed: true}
	var results []policy.Result
	var annotations engine.Annotations
	if plan.enforce {
		out := s.eval(ctx, engine.Input{Selections: selections, Request: req, Stages: evaluating, Root: s.rootOf(req), Select: enforcing, Spent: spent})
		s.Observer.Evaluated(&out)
		results, decision = out.Results, engine.Decide(&out, row.words)
		annotations.Add(&out)
	}
	if !decision.Allowed {
		s.report(req, results, true)
		if !row.words.WithRefusal {
			return response{message: decision.Message, annotations: annotations.Texts(), results: results}, nil
		}
	}
	res := response{allowed: decision.Allowed, message: decision.Message, warnings: decision.Warnings, results: results}
	if len(plan.informing) > 0 {
		// These rules cannot deny; they are evaluated now only for their warnings and annotations.
		out := s.eval(ctx, engine.Input{Selections: plan.informing, Request: req, Stages: evaluating, Root: s.rootOf(req), Select: plan.rest(), Before: results, Spent: spent})
		res.warnings = append(res.warnings, engine.Warnings(&out, row.words)...)
		annotations.Add(&out)
	}
	res.annotations = annotations.Texts()
	if !decision.Allowed {
		return res, nil
	}
	if plan.audit {
		res.later = &audit{ctx: s.Observer.Later(ctx), req: req, selections: selections, stages: evaluating, selects: plan.rest(), results: results}
	} else {
		s.report(req, results, false)
	}
	if row.Stages.Has(deferredStages) {
		res.warnings = append(res.warnings, s.deferWork(ctx, req, selections, row, spent)...)
	}
	return res, nil
}

// prepare adds information to a request that the review does not contain. If prepare returns an answer, it is final: no policy is
// evaluated.
func (s *Server) prepare(ctx context.Context, req *policy.Request, row boundRoute) (*response, error) {
	if !row.evaluates(req.Operation) {
		return &response{allowed: true}, nil
	}
	if req.Subresource != "" {
		// Policies use the main resource's kind; the object of a subresource has its own kind.
		gvk, err := s.cluster.KindFor(ctx, req.GVR)
		if err != nil {
			return &response{message: "failed to find the kind of the resource: " + err.Error()}, nil
		}
		req.GVK = gvk
	}
	s.attach(req)
	req.Conf = policy.ConfOf(s.settings.Load())
	if s.protected(req) {
		return &response{message: textProtected}, nil
	}
	skip, err := s.filtered(ctx, req)
	if err != nil {
		return nil, err
	}
	if skip {
		return &response{allowed: true}, nil
	}
	return nil, nil
}

// enforcing selects the rules that are evaluated before the answer if one of them denies, including those on whose results other rules
// depend.
func enforcing(r *policy.Rule, a policy.Action) bool { return a.Has(policy.Deny) || r.Shared }

// auditing selects the other rules; allowing selects the rules that do not deny, if no rule denies.
func auditing(r *policy.Rule, a policy.Action) bool { return !enforcing(r, a) }
func allowing(_ *policy.Rule, a policy.Action) bool { return !a.Has(policy.Deny) }

// rest selects the rules that were not evaluated before the answer.
func (p plan) rest() func(*policy.Rule, policy.Action) bool {
	if p.enforce {
		return auditing
	}
	return allowing
}

// plan holds the evaluations that the selected rules need.
type plan struct {
	enforce, audit bool
	informing      []policy.Selection // with rules that do not deny, but may warn or annotate
}

func planOf(selections []policy.Selection, stages policy.Stage) plan {
	var p plan
	for i := range selections {
		sel := &selections[i]
		audit, informing := false, sel.Program.Settings.EmitWarning
		for _, r := range sel.Rules {
			if !r.Stage.Has(stages) {
				continue
			}
			p.enforce = p.enforce || r.Action.May(policy.Deny)
			audit = audit || r.Action.MayAllow()
			informing = informing || r.Annotates || r.Action.May(policy.Warn)
		}
		p.audit = p.audit || audit
		if audit && informing {
			p.informing = append(p.informing, *sel)
		}
	}
	return p
}

// attach adds lookups to the request for information that the review does not contain.
func (s *Server) attach(req *policy.Request) {
	req.ResolveRoles = func(ctx context.Context) (policy.Roles, error) {
		if req.User == nil {
			return policy.Roles{}, nil
		}
		if req.Tape == nil {
			return s.cluster.Roles(ctx, req.User, req.Namespace)
		}
		return taped.AnswerOrCall(ctx, req.Tape, taped.Roles, taped.RolesOf(req.User.Username, req.User.Groups, req.Namespace), func(ctx context.Context) (policy.Roles, error) {
			return s.cluster.Roles(ctx, req.User, req.Namespace)
		})
	}
	if req.GVK.GroupKind() == coreNamespace {
		// A Namespace is in no namespace, and during its creation it has no labels to look up.
		req.ResolveNamespace = func(context.Context) (map[string]string, error) { return nil, nil }
		return
	}
	req.ResolveNamespace = func(ctx context.Context) (map[string]string, error) {
		return taped.AnswerOrCall(ctx, req.Tape, taped.Labels, req.Namespace, func(ctx context.Context) (map[string]string, error) {
			return s.cluster.NamespaceLabels(ctx, req.Namespace)
		})
	}
}

// rootOf returns what rules for the request look things up in.
func (s *Server) rootOf(req *policy.Request) world.Root { return req.Tape.Root(s.root) }

// filtered reports whether the settings exclude the request from all policies.
func (s *Server) filtered(ctx context.Context, req *policy.Request) (bool, error) {
	conf := s.settings.Load()
	if req.User != nil {
		excluded, err := conf.Excluded(req.User.Username, req.User.Groups, func() ([]string, []string, error) {
			r, err := req.Roles(ctx)
			return r.Roles, r.ClusterRoles, err
		})
		if err != nil {
			return false, fmt.Errorf("find the requester's roles for the exclude lists: %w", err)
		}
		if excluded {
			return true, nil
		}
	}
	return conf.Filtered(req.GVK, req.Subresource, req.Namespace, req.Name), nil
}

// allow admits every request.
func (s *Server) allow(context.Context, *policy.Request, boundRoute) (response, error) {
	return response{allowed: true}, nil
}

package admission

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/patch"
	"ephor.invalid/ephor/internal/policy"
)

// mutateResource applies the mutating policies of the row to the object of a request, one after the other, and then verifies the images of
// the result. The answer has the JSON patch from the original object, which changes nothing else, not even the form of numbers.
func (s *Server) mutateResource(ctx context.Context, req *policy.Request, row boundRoute) (response, error) {
	if answer, err := s.prepare(ctx, req, row); answer != nil || err != nil {
		return answerOr(answer), err
	}
	selections := row.policies.For(req, row.Route)
	if len(selections) == 0 || req.Object == nil && !row.Stages.Has(deferredStages) {
		return response{allowed: true}, nil
	}
	spent := budget.NewRequest()
	if req.Object == nil || req.Operation == policy.Delete {
		return response{allowed: true, warnings: s.deferWork(ctx, req, selections, row, spent)}, nil
	}
	changed := s.eval(ctx, engine.Input{Selections: selections, Request: req, Stages: row.Stages & policy.StageMutate, Root: s.rootOf(req), Spent: spent})
	s.Observer.Evaluated(&changed)
	decision := engine.Decide(&changed, row.words)
	for i := range changed.Results {
		if r := &changed.Results[i]; r.Status == policy.StatusError {
			logResult(ctx, s.Log, req, r)
		}
	}
	s.report(req, changed.Results, !decision.Allowed)
	var annotations engine.Annotations
	annotations.Add(&changed)
	if !decision.Allowed {
		return response{message: decision.Message, annotations: annotations.Texts(), results: changed.Results}, nil
	}
	res := response{allowed: true, warnings: decision.Warnings, annotations: annotations.Texts(), results: changed.Results}
	if row.Stages.Has(deferredStages) {
		res.warnings = append(res.warnings, s.deferWork(ctx, req, selections, row, spent)...)
	}
	final := changed.Object
	if stage := row.Stages & policy.StageVerifyImages; stage != 0 && uses(selections, stage) {
		on := req
		if final != req.Object {
			on = req.WithObject(final)
		}
		verified := s.eval(ctx, engine.Input{Selections: selections, Request: on, Stages: stage, Root: s.rootOf(req), Spent: spent})
		s.Observer.Evaluated(&verified)
		decision = engine.Decide(&verified, engine.ValidateWording)
		s.report(on, verified.Results, !decision.Allowed)
		res.results = append(res.results, verified.Results...)
		if !decision.Allowed {
			return response{message: decision.Message, results: res.results}, nil
		}
		res.warnings = append(res.warnings, decision.Warnings...)
		final = verified.Object
	}
	if final == req.Object {
		return res, nil
	}
	before, err := req.Object.Value()
	if err != nil {
		return response{}, fmt.Errorf("read the object: %w", err)
	}
	after, err := final.Value()
	if err != nil {
		return response{}, fmt.Errorf("read the changed object: %w", err)
	}
	if ops := patch.Diff(before, after); len(ops) > 0 {
		res.patch = patch.AppendJSON(nil, ops)
		res.object = final
	}
	return res, nil
}

// uses reports whether some rule has the stage.
func uses(selections []policy.Selection, stage policy.Stage) bool {
	for i := range selections {
		for _, r := range selections[i].Rules {
			if r.Stage.Has(stage) {
				return true
			}
		}
	}
	return false
}

func answerOr(r *response) response {
	if r == nil {
		return response{}
	}
	return *r
}

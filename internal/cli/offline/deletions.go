package offline

import (
	"context"

	"ephor.invalid/ephor/internal/engine"
	"ephor.invalid/ephor/internal/policy"
)

// Deletions evaluates the policies that delete resources on o. The rules of a policy determine whether it has a result for a
// resource that it does not match (policy.Offline).
func (e *Evaluator) Deletions(ctx context.Context, o map[string]any) ([]policy.Outcome, error) {
	if e.payload != policy.NoPayload && e.payload != policy.JSONPayload {
		return nil, nil // check requests cannot be deleted
	}
	var out []policy.Outcome
	for i := range e.Policies {
		p := &e.Policies[i]
		if !p.stages.Has(policy.StageDelete) {
			continue
		}
		req, err := e.Request(p.Program, o, "")
		if err != nil {
			return nil, err
		}
		got := engine.Eval(ctx, engine.Input{
			Selections: []policy.Selection{{Program: p.Program, Rules: p.Program.Rules}},
			Request:    req, Stages: policy.StageDelete, Root: e.Root, Plan: true,
		})
		if len(got.Results) == 0 {
			for _, rule := range p.Program.Rules {
				if y := rule.Offline.Unmatched; y.Status != policy.StatusNone {
					got.Results = append(got.Results, policy.Result{Program: p.Program, Rule: rule, Yield: y})
				}
			}
		}
		if len(got.Results) > 0 {
			out = append(out, got)
		}
	}
	return out, nil
}

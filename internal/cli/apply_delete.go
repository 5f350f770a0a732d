package cli

import (
	"context"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/family/cleanup"
	"github.com/ephor-dev/ephor/internal/policy"
)

// deletions asks the policies that delete resources about o. Every one of them gives a result, as in Kyverno: a
// resource that it is not for did not match.
func (e *evaluator) deletions(ctx context.Context, o map[string]any) ([]policy.Outcome, error) {
	var out []policy.Outcome
	for i := range e.policies {
		p := &e.policies[i]
		if !p.stages.Has(policy.StageDelete) {
			continue
		}
		req, err := e.request(p.program, o, "")
		if err != nil {
			return nil, err
		}
		got := engine.Eval(ctx, engine.Input{
			Selections: []policy.Selection{{Program: p.program, Rules: p.program.Rules}},
			Request:    req, Stages: policy.StageDelete, Root: e.root, Plan: true,
		})
		if len(got.Results) == 0 {
			for _, rule := range p.program.Rules {
				got.Results = append(got.Results, policy.Result{Program: p.program, Rule: rule,
					Yield: policy.Yield{Status: policy.StatusFail, Message: cleanup.TextNotMatched}})
			}
		}
		out = append(out, got)
	}
	return out, nil
}

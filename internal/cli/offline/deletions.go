package offline

import (
	"context"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/family/cleanup"
	"github.com/ephor-dev/ephor/internal/family/deleting"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Deletions asks the policies that delete resources about o. Every cleanup policy gives a result, as in Kyverno: a
// resource that it is not for did not match. A DeletingPolicy gives none for such a resource, and one that cannot be evaluated ends the run.
func (e *Evaluator) Deletions(ctx context.Context, o map[string]any) ([]policy.Outcome, error) {
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
				if rule.Kind != cleanup.RuleKind {
					continue
				}
				got.Results = append(got.Results, policy.Result{Program: p.Program, Rule: rule,
					Yield: policy.Yield{Status: policy.StatusFail, Message: cleanup.TextNotMatched}})
			}
		}
		for i := range got.Results {
			if r := &got.Results[i]; r.Rule.Kind == deleting.RuleKind && r.Status == policy.StatusError {
				return nil, &DeletionError{r.Message}
			}
		}
		if len(got.Results) > 0 {
			out = append(out, got)
		}
	}
	return out, nil
}

// DeletionError says why a DeletingPolicy could not be evaluated.
type DeletionError struct{ why string }

func (e *DeletionError) Error() string {
	return "failed to apply deleting policies on resource: " + e.why
}

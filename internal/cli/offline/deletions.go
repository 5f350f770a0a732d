package offline

import (
	"context"

	"github.com/ephor-dev/ephor/internal/engine"
	"github.com/ephor-dev/ephor/internal/policy"
)

// Deletions evaluates the policies that delete resources on o. The rules of a policy determine whether it has a result for a
// resource that it does not match, and whether an error ends the run (policy.Offline).
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
		for i := range got.Results {
			if r := &got.Results[i]; r.Rule.Offline.Fatal != "" && r.Status == policy.StatusError && !r.Unknown {
				return nil, &DeletionError{r.Rule.Offline.Fatal + r.Message}
			}
		}
		if len(got.Results) > 0 {
			out = append(out, got)
		}
	}
	return out, nil
}

// DeletionError is the reason why a policy could not be evaluated. It ends the run.
type DeletionError struct{ why string }

func (e *DeletionError) Error() string { return e.why }

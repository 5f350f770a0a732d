package celrule

import (
	"context"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
)

// Respond evaluates expressions that answer a check request, in order, up to the first that gives an answer; ok is false if all of
// them are null.
func (r *Rule) Respond(ctx context.Context, m *budget.Meter, in *run.Input, expressions []*run.Expression) (response env.Response, ok bool, err error) {
	e := begin(ctx, m, r.Named, in, price.Budget)
	for _, x := range expressions {
		v, err := e.Value(x)
		if err != nil {
			return env.Response{}, false, e.end(err)
		}
		if response, ok = env.ResponseOf(v); ok {
			break
		}
	}
	return response, ok, e.end(nil)
}

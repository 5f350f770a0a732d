package celrule

import (
	"context"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/celenv"
)

// Respond evaluates expressions that answer a check request, in order, up to the first that gives an answer; ok is false if all of
// them are null.
func (r *Rule) Respond(ctx context.Context, m *budget.Meter, in *celenv.Input, expressions []*celenv.Expression) (response celenv.Response, ok bool, err error) {
	e := begin(ctx, m, r.Named, in, celenv.Budget)
	for _, x := range expressions {
		v, err := e.Value(x)
		if err != nil {
			return celenv.Response{}, false, e.end(err)
		}
		if response, ok = celenv.ResponseOf(v); ok {
			break
		}
	}
	return response, ok, e.end(nil)
}

package celrule

import (
	"context"

	"github.com/ephor-dev/ephor/internal/budget"
	"github.com/ephor-dev/ephor/internal/celenv"
)

// evaluation is an evaluation of expressions whose cost is charged to a meter.
type evaluation struct {
	*celenv.Evaluation
	meter *budget.Meter
}

// begin starts an evaluation that may cost limit, or the remaining budget of the policy if that is less.
func begin(ctx context.Context, m *budget.Meter, named *celenv.Variables, in *celenv.Input, limit int64) evaluation {
	return evaluation{named.Evaluate(ctx, in, m.Affordable(limit)), m}
}

// end charges the cost of the expressions. It returns the error of the budget if that is exhausted, otherwise err.
func (e evaluation) end(err error) error {
	if over := e.meter.Cost(e.Spent()); over != nil {
		return over
	}
	return err
}

// finish is end for an evaluation whose values are not used any more.
func (e evaluation) finish(err error) error {
	if err = e.end(err); err == nil {
		e.Release()
	}
	return err
}

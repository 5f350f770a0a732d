package celrule

import (
	"context"
	"fmt"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
)

// evaluation is an evaluation of expressions whose cost is charged to a meter.
type evaluation struct {
	*run.Evaluation
	meter *budget.Meter
}

// begin starts an evaluation that may take so many units, or the remaining budget of the policy if that is less.
func begin(ctx context.Context, m *budget.Meter, named *run.Variables, in *run.Input, units int64) evaluation {
	left := m.Left(units*price.StepsPerUnit)/price.StepsPerUnit + 1
	return evaluation{named.Evaluate(ctx, in, min(units, left)), m}
}

// end charges the cost of the expressions. It returns the error of the budget if that is exhausted, otherwise err.
func (e evaluation) end(err error) error {
	e.recordExceeded()
	if over := e.meter.Beside(e.Spent()); over != nil {
		return over
	}
	return err
}

// errExceeded is the error of the limits of expressions.
var errExceeded = fmt.Errorf("%w: for one request the expressions of a rule may take %d steps, and make lists, maps and texts of limited size: make them do less",
	budget.ErrExhausted, price.MaxSteps)

// recordExceeded records whether the expressions exceeded a limit.
func (e evaluation) recordExceeded() {
	if e.Exceeded() {
		e.meter.Exceed(errExceeded)
	}
}

// finish is end for an evaluation whose values are not used any more.
func (e evaluation) finish(err error) error {
	if err = e.end(err); err == nil {
		e.Release()
	}
	return err
}

package celrule

import (
	"context"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/run"
)

// Conditions are compiled match conditions.
type Conditions []*run.Expression

// Hold evaluates match conditions as the API server does: a false condition decides, even after an error. The error lists
// the conditions that could not be evaluated.
func (c Conditions) Hold(ctx context.Context, m *budget.Meter, named *run.Variables, in *run.Input) (bool, error) {
	if len(c) == 0 {
		return true, nil
	}
	e := begin(ctx, m, named, in, price.BudgetCondition)
	ok, err := c.hold(e)
	if err = e.finish(err); err != nil {
		return false, err
	}
	return ok, nil
}

func (c Conditions) hold(e evaluation) (bool, error) {
	var failures Failures
	for _, x := range c {
		ok, err := e.Bool(x)
		switch {
		case budget.Over(err):
			return false, err
		case err != nil:
			failures = append(failures, err)
		case !ok:
			return false, nil
		}
	}
	if len(failures) > 0 {
		return false, failures
	}
	return true, nil
}

// Failures are the errors of several conditions. Its text has the API server's form: in brackets, without duplicates.
type Failures []error

func (e Failures) Error() string { return utilerrors.NewAggregate(e).Error() }

// Unwrap returns the errors.
func (e Failures) Unwrap() []error { return e }

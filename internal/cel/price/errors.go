package price

import (
	"fmt"

	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"ephor.invalid/ephor/internal/budget"
)

// Budgets of one evaluation, in the library's units of cost: for the expressions of a rule, and for match conditions. A
// single expression may cost at most a tenth of Budget. Steps have a limit of their own, see NewMeter.
const (
	Budget          int64 = celconfig.RuntimeCELCostBudget / budget.Share
	BudgetCondition int64 = celconfig.RuntimeCELCostBudgetMatchConditions / budget.Share
)

// ErrBudget is wrapped by the error of an evaluation that exceeded its budget.
var ErrBudget = apiservercel.ErrOutOfBudget

// ErrOutOfBudget is the error of an evaluation that used up its budget, with the library's text.
var ErrOutOfBudget = fmt.Errorf("validation failed due to running out of cost budget, no further validation rules will be run%w", Quietly(ErrBudget))

// ErrCallLimit is the error of a single expression that costs too much, with the library's text.
var ErrCallLimit = fmt.Errorf("operation cancelled: actual cost limit exceeded%w", Quietly(ErrBudget))

// Quietly wraps an error without adding its text.
func Quietly(err error) error { return quiet{err} }

type quiet struct{ error }

func (quiet) Error() string   { return "" }
func (q quiet) Unwrap() error { return q.error }

// ErrTooLarge is the error of a value, or of a call, that is too large for any budget.
var ErrTooLarge = fmt.Errorf("an expression makes a list or map of more than %d values, a text of more than %d bytes, or takes too many steps%w", MaxValues, MaxText, Quietly(ErrBudget))

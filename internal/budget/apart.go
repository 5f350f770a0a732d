package budget

import "context"

// Limits of all exceptions of one rule together, in one evaluation: a quarter of what the rule itself may cost. Each exception has an equal
// share and at least enough for a simple condition, so that no exception takes the budget of another one, or of the policy.
const (
	ExceptionSteps = DefaultSteps / 4
	ExceptionBytes = DefaultBytes / 4

	minExceptionSteps = 10_000
	minExceptionBytes = 64 << 10
)

// Apart is a meter with an account of its own, for work that is not charged to the policy.
type Apart struct {
	Meter
	account Account
	all     purse
}

// ForRule prepares a for one more evaluation of a rule.
func (a *Apart) ForRule(ctx context.Context) {
	a.all = purse{DefaultSteps, DefaultBytes}
	a.account = Account{left: a.all, all: &a.all, exception: true}
	a.Reset(ctx, DefaultSteps, DefaultBytes)
	a.Charge(&a.account)
}

// ForException prepares a for one of n exceptions of a rule.
func (a *Apart) ForException(ctx context.Context, n int) {
	steps, bytes := max(ExceptionSteps/int64(n), minExceptionSteps), max(ExceptionBytes/int64(n), minExceptionBytes)
	a.all = purse{steps, bytes}
	a.account = Account{left: a.all, all: &a.all, exception: true}
	a.Reset(ctx, steps, bytes)
	a.Charge(&a.account)
}

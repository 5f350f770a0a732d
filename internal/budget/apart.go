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

// Apart is a meter with an account of its own, for work that does not use up the budget of the policy. A pacer, if there is one, charges it to
// a share of processor time; Settle ends each evaluation.
type Apart struct {
	Meter
	account Account
	all     purse
}

// ForRule prepares a for one more evaluation of a rule. p may be nil.
func (a *Apart) ForRule(ctx context.Context, p Pacer) {
	a.prepare(ctx, DefaultSteps, DefaultBytes, p)
}

// ForException prepares a for one of n exceptions of a rule. p may be nil.
func (a *Apart) ForException(ctx context.Context, n int, p Pacer) {
	a.prepare(ctx, max(ExceptionSteps/int64(n), minExceptionSteps), max(ExceptionBytes/int64(n), minExceptionBytes), p)
}

func (a *Apart) prepare(ctx context.Context, steps, bytes int64, p Pacer) {
	a.all = purse{steps, bytes}
	a.account = Account{left: a.all, all: &a.all, exception: true, pacer: p}
	a.Reset(ctx, steps, bytes)
	a.Charge(&a.account)
}

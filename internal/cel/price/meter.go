package price

import (
	"context"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"ephor.invalid/ephor/internal/budget"
)

// Meter is the budget of one evaluation. Everything that has a price is charged here, before it happens if its price is known before.
//
// It has two accounts, because two limits hold. Units are the cost that the API server computes, with its formulas (units.go): its limits decide
// whether a policy that the API server would stop is stopped here as well. Steps are time, in the measure of package budget (charge.go): the API
// server's units are no upper bound for it. An evaluation ends when either account is used up, when its context is done, or when a lookup
// failed.
type Meter struct {
	ctx       context.Context
	remaining int64 // units that are left
	limit     int64 // of steps
	Work
	cost     int64 // the units of the current expression
	failure  error // the reason why a lookup of an expression failed
	unseen   int32 // the steps since the meter looked at the context, less than lookEvery
	over     bool  // whether the context is done
	exceeded bool  // whether a limit was exceeded
}

// Work is what was charged.
type Work struct {
	Units int64 // of the API server's cost
	Steps int64 // of package budget
}

// Since returns the work after an earlier state.
func (w Work) Since(before Work) Work { return Work{w.Units - before.Units, w.Steps - before.Steps} }

// StepsPerUnit is the number of steps that a unit stands for: the API server grants 10 million units, about a second.
const StepsPerUnit = 10

// NewMeter returns a meter with this many units, and the steps that they stand for, up to MaxSteps. It ends the evaluation when ctx is done.
func NewMeter(ctx context.Context, units int64) Meter {
	return Meter{ctx: ctx, remaining: units, limit: min(units*StepsPerUnit, MaxSteps)}
}

// MaxSteps is the limit of one evaluation: that of a rule in the classic language. The limits of the API server allow a second. A loop that
// calls a handful of functions on each of 10,000 elements stays within it.
const MaxSteps = budget.DefaultSteps

// perExpression is the maximum number of units of one expression.
const perExpression = celconfig.PerCallLimit / budget.Share

// lookEvery is the number of steps after which a meter looks at its context: less than a millisecond.
const lookEvery = 20_000

// Context returns the context of the evaluation.
func (m *Meter) Context() context.Context { return m.ctx }

// Begin begins an expression, which has its own limit of units. The result is for End.
func (m *Meter) Begin() (around int64) {
	around, m.cost = m.cost, 0
	return around
}

// End ends the expression that the matching Begin began.
func (m *Meter) End(around int64) { m.cost = around }

// Spend charges units. The evaluation ends when it exceeds the limit of one expression.
func (m *Meter) Spend(units int64) {
	units = min(units, perExpression+1) // what is refused does not count
	m.Units += units
	m.remaining -= units
	m.look(StepsPerUnit * units)
	if m.cost += units; m.cost > perExpression && m.failure == nil {
		m.failure = ErrCallLimit
	}
	m.exceeded = m.exceeded || m.cost > perExpression || m.remaining < 0
}

// Charge charges steps. The evaluation ends when it exceeds the limit.
func (m *Meter) Charge(steps int) {
	m.look(int64(steps))
	if m.Steps += int64(steps); m.Steps > m.limit {
		m.Steps = m.limit + 1 // what is refused does not count
		m.remaining, m.exceeded = -1, true
	}
}

// look looks at the context, before work of that many steps.
func (m *Meter) look(steps int64) {
	if steps += int64(m.unseen); steps >= lookEvery {
		steps = 0
		m.over = m.over || m.ctx.Err() != nil
	}
	m.unseen = int32(steps)
}

// TooLarge ends the evaluation because of a value that is too large.
func (m *Meter) TooLarge() { m.failure, m.exceeded = ErrTooLarge, true }

// Fail ends the evaluation, because a function could not find out the answer to its query to the World.
func (m *Meter) Fail(err error) { m.failure = err }

// Failure returns the error with which Fail ended the evaluation; nil if it did not.
func (m *Meter) Failure() error { return m.failure }

// Clear forgets the failure of an earlier expression.
func (m *Meter) Clear() { m.failure = nil }

// Reason returns why the evaluation has ended; nil if it has not. outOfUnits is the reason if its units or steps are used up.
func (m *Meter) Reason(outOfUnits error) error {
	switch {
	case m.over:
		return m.ctx.Err()
	case m.failure != nil:
		return m.failure
	case m.remaining < 0:
		return outOfUnits
	}
	return nil
}

// Repeat charges work that was done before, so that budgets do not depend on what is known from other policies.
func (m *Meter) Repeat(w Work) {
	m.Units += w.Units
	m.remaining -= w.Units
	m.Charge(int(w.Steps))
}

// Ended reports whether the evaluation has ended because of its cost, because a lookup failed, or because the context is done. Once it
// returns true, it always does, so that all nested loops end.
func (m *Meter) Ended() bool { return m.remaining < 0 || m.failure != nil || m.over }

// Exceeded reports whether the evaluation exceeded one of its limits.
func (m *Meter) Exceeded() bool { return m.exceeded }

// Spent returns the cost of the expressions so far in steps: their units or their steps, whatever is more.
func (m *Meter) Spent() int64 { return max(StepsPerUnit*m.Units, m.Steps) }

// Afford charges a node, and the steps of a function that goes on in small ones. It returns an error if the limit is exceeded. The nil Meter
// has no limit.
func (m *Meter) Afford(steps int64) error {
	if m == nil {
		return nil
	}
	if m.Charge(NodeSteps + int(steps)); m.Ended() {
		return ErrOutOfBudget
	}
	return nil
}

package celenv

import (
	"context"

	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"ephor.invalid/ephor/internal/budget"
)

// meter is the budget of one evaluation. Everything that has a price is charged here, before it happens if its price is known before.
//
// It has two accounts, because two limits hold. Units are the cost that the API server computes, with its formulas (cost.go): its limits decide
// whether a policy that the API server would stop is stopped here as well. Parts are time (charge.go): the API server's prices are no upper
// bound for it. An evaluation ends when either account is used up, when its context is done, or when a lookup failed.
type meter struct {
	ctx       context.Context
	remaining int64 // units that are left
	limit     int64 // of parts
	work
	cost     int64 // the units of the current expression
	failure  error // the reason why a lookup of an expression failed
	unseen   int64 // the work since the meter looked at the context
	over     bool  // whether the context is done
	exceeded bool  // whether a limit was exceeded
}

// work is what was charged.
type work struct {
	spent int64 // units
	loops int   // iterations of all loops
	parts int   // parts of expressions: those that loops evaluated, and what calls took
}

// since returns the work after an earlier state.
func (w work) since(before work) work {
	return work{w.spent - before.spent, w.loops - before.loops, w.parts - before.parts}
}

func newMeter(ctx context.Context, units int64) meter {
	return meter{ctx: ctx, remaining: units, limit: min(units, MaxParts)}
}

// MaxParts is the limit for all loops and calls of one evaluation, in evaluated parts of expressions. An iteration counts the parts of the
// loop's condition and step, without those of inner loops; a call counts by the size of its arguments (see charge.go). A part takes less
// than 100 ns, so an evaluation ends within the time that every other kind of rule has; the limits of the API server allow a second. A loop
// that calls a handful of functions on each of 10,000 elements stays within the limit.
const MaxParts = 200_000 / budget.Share

// perExpression is the maximum number of units of one expression.
const perExpression = celconfig.PerCallLimit / budget.Share

// lookEvery is the work after which a meter looks at its context: less than a millisecond.
const lookEvery = 2000

// Context returns the context of the evaluation.
func (m *meter) Context() context.Context { return m.ctx }

// begin begins an expression, which has its own limit of units; end ends it, with the result of begin.
func (m *meter) begin() (around int64) {
	around, m.cost = m.cost, 0
	return around
}

func (m *meter) end(around int64) { m.cost = around }

// spend charges units. The evaluation ends when it exceeds the limit of one expression.
func (m *meter) spend(units int64) {
	units = min(units, perExpression+1) // what is refused does not count
	m.spent += units
	m.remaining -= units
	m.look(units)
	if m.cost += units; m.cost > perExpression && m.failure == nil {
		m.failure = errCallLimit
	}
	m.exceeded = m.exceeded || m.cost > perExpression || m.remaining < 0
}

// take charges parts of expressions. The evaluation ends when it exceeds the limit.
func (m *meter) take(parts int) {
	m.look(int64(parts))
	if m.parts += parts; int64(m.parts) > m.limit {
		m.parts = int(m.limit) + 1 // what is refused does not count
		m.remaining, m.exceeded = -1, true
	}
}

// tooLarge ends the evaluation because of a value that is too large.
func (m *meter) tooLarge() { m.failure, m.exceeded = errTooLarge, true }

// fail ends the evaluation, because a function could not find out the answer to its query to the World.
func (m *meter) fail(err error) { m.failure = err }

// failed returns the error with which fail ended the evaluation; nil if it did not.
func (m *meter) failed() error { return m.failure }

// clear forgets the failure of an earlier expression.
func (m *meter) clear() { m.failure = nil }

// reason returns why the evaluation has ended; nil if it has not. outOfUnits is the reason if its units or parts are used up.
func (m *meter) reason(outOfUnits error) error {
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

// again charges work that was done before, so that budgets do not depend on what is known from other policies.
func (m *meter) again(w work) {
	m.spent += w.spent
	m.remaining -= w.spent
	m.loops += w.loops
	m.take(w.parts)
}

// look looks at the context, before work of that size.
func (m *meter) look(n int64) {
	if m.unseen += n; m.unseen >= lookEvery {
		m.unseen = 0
		m.over = m.over || m.ctx.Err() != nil
	}
}

// ended reports whether the evaluation has ended because of its cost, because a lookup failed, or because the context is done.
func (m *meter) ended() bool { return m.remaining < 0 || m.failure != nil || m.over }

// interrupted reports, after an iteration of a loop, whether the evaluation has ended. Once it returns true, it always does, so that all
// nested loops end.
func (m *meter) interrupted() bool {
	if m.ended() {
		return true
	}
	m.loops++
	if m.loops%celconfig.CheckFrequency == 0 {
		m.over = m.ctx.Err() != nil
	}
	return m.over
}

// Exceeded reports whether the evaluation exceeded one of its limits.
func (m *meter) Exceeded() bool { return m.exceeded }

// Spent returns the cost of the expressions so far, in the library's units.
func (m *meter) Spent() int64 { return max(m.spent, int64(m.parts)) }

// step charges the steps of a function that takes many. It returns an error if the limit is exceeded.
func (m *meter) step(n int) error {
	if m.take(n); m.ended() {
		return errOutOfBudget
	}
	return nil
}

// steps charges steps of package budget.
func (m *meter) steps(n int64) error {
	if m == nil {
		return nil
	}
	return m.step(int(1 + n/stepsPerPart))
}

// stepsPerPart is the number of steps of package budget in the time in which one part of an expression is evaluated.
const stepsPerPart = 10

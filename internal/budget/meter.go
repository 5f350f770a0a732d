package budget

import (
	"context"
	"errors"
	"fmt"
	"math"

	"ephor.invalid/ephor/internal/value"
)

// Limits of one rule evaluation. They are far above what a real policy needs (a Pod Security rule on a 7 kB Pod takes some hundred steps,
// a foreach over 1,000 elements some hundred thousand) and far below what hurts a process on two cores. A step takes at most some 10 ns,
// and a counted byte stands for at most some four allocated bytes, so a rule that uses up its budget takes about 20 ms and 64 MB (see the
// table of bombs in package robustness).
const (
	DefaultSteps = 2_000_000 / Share
	DefaultBytes = (16 << 20) / Share
	// MaxDepth is the nesting depth at which a document, an expression or a pattern is rejected before it is evaluated.
	MaxDepth = 1000
)

// ErrExhausted is wrapped by every error that a Meter returns because a limit was exceeded.
var ErrExhausted = errors.New("evaluation budget exhausted")

// Over reports whether err ends the evaluation as a whole: a limit was exceeded or the context is done. Constructs that tolerate other
// errors (a default, a skipped element) must not hide such an error.
func Over(err error) bool {
	return err != nil && (errors.Is(err, ErrExhausted) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

const checkEvery = 1024

// bytesPerStep is the number of bytes that can be produced in the time of one step.
const bytesPerStep = 8

// Meter counts the steps and bytes of one evaluation. The nil Meter is unlimited. A Meter belongs to one goroutine.
type Meter struct {
	ctx        context.Context
	steps      int64
	bytes      int64
	untilCheck int64
	maxSteps   int64 // the smaller of the rule's remaining budget and the account's
	maxBytes   int64

	account   *Account // of the policy; nil if only the rule is metered
	ruleSteps int64    // the rule's budget
	ruleBytes int64
	beside    int64 // steps that do not count for the rule's budget
	paced     int64 // work that was reported to the pacer, in steps
	over      error // the error if the account is exhausted
	own       error // the error if the rule's budget is exhausted
}

// New returns a Meter that allows maxSteps steps and maxBytes bytes and stops when ctx is done.
func New(ctx context.Context, maxSteps, maxBytes int64) *Meter {
	m := &Meter{}
	m.Reset(ctx, maxSteps, maxBytes)
	return m
}

// Reset makes m as New would return it, so that an engine can reuse one Meter for many rules.
func (m *Meter) Reset(ctx context.Context, maxSteps, maxBytes int64) {
	*m = Meter{ctx: ctx, untilCheck: checkEvery, maxSteps: maxSteps, maxBytes: maxBytes, ruleSteps: maxSteps, ruleBytes: maxBytes}
}

// Charge charges the counts of m to the account from now on, until Settle is called.
func (m *Meter) Charge(a *Account) {
	m.account = a
	m.limit()
}

// limit applies the remaining budget of the account.
func (m *Meter) limit() {
	a := m.account
	m.maxSteps = min(m.ruleSteps, a.left.steps-m.beside, a.all.steps-m.beside)
	m.maxBytes = min(m.ruleBytes, a.left.bytes, a.all.bytes)
}

// Settle charges the counts to the account and detaches it. An error, which wraps ErrExhausted, means that the account is exhausted and
// that the rule's result must be discarded.
func (m *Meter) Settle() error {
	a := m.account
	if a == nil {
		return nil
	}
	m.account = nil
	if a.pacer != nil {
		a.pacer.Spend(m.work() - m.paced)
	}
	a.charge(m.steps+m.beside, m.bytes)
	if m.over != nil {
		a.err = m.over
	}
	return m.over
}

// work returns the counted work in steps.
func (m *Meter) work() int64 { return m.steps + m.beside + m.bytes/bytesPerStep }

// Beside counts n steps of the policy that do not count for its rule's budget, since they have their own limit. Its errors are those of
// Step.
func (m *Meter) Beside(n int64) error {
	if m == nil || m.account == nil || n <= 0 {
		return nil
	}
	m.beside += n
	m.untilCheck -= n
	m.limit()
	if err := m.account.over(m.steps+m.beside, m.bytes); err != nil {
		m.over = err
		return err
	}
	if m.untilCheck > 0 {
		return nil
	}
	return m.check()
}

// Left returns the number of steps that the account still allows outside the rule's budget, at most limit.
func (m *Meter) Left(limit int64) int64 {
	if m == nil || m.account == nil {
		return limit
	}
	used := m.steps + m.beside
	return max(0, min(limit, m.account.left.steps-used, m.account.all.steps-used))
}

// Context returns the context of the evaluation; context.Background for the nil Meter.
func (m *Meter) Context() context.Context {
	if m == nil || m.ctx == nil {
		return context.Background()
	}
	return m.ctx
}

// Step counts n steps. It returns an error wrapping ErrExhausted when the step limit is exceeded, or the context's error when the context
// is done; an evaluation must end with that error.
func (m *Meter) Step(n int) error {
	if m == nil {
		return nil
	}
	m.steps += int64(n)
	m.untilCheck -= int64(n)
	if m.untilCheck > 0 && m.steps <= m.maxSteps {
		return nil
	}
	return m.check()
}

// Bytes counts n bytes of new text or data, with the errors of Step.
func (m *Meter) Bytes(n int) error {
	if m == nil {
		return nil
	}
	m.bytes += int64(n)
	m.untilCheck -= int64(n) / bytesPerStep
	if m.untilCheck > 0 && m.bytes <= m.maxBytes {
		return nil
	}
	return m.check()
}

// Text counts the bytes of a value that is about to be converted to text, with the errors of Step. It walks over the value, but stops at
// the limit of bytes.
func (m *Meter) Text(v any) error {
	if m == nil {
		return nil
	}
	if s, ok := v.(string); ok {
		return m.Bytes(len(s))
	}
	return m.Bytes(value.TextLength(v, int(m.maxBytes-m.bytes)))
}

// Walk counts the steps of a complete walk over v, with the errors of Step.
func (m *Meter) Walk(v any) error {
	if m == nil {
		return nil
	}
	return m.Step(1 + value.TextLength(v, int(min(m.maxSteps-m.steps+1, math.MaxInt/walkStep))*walkStep)/walkStep)
}

// walkStep is the length of text that counts as one step of a walk.
const walkStep = 32

// Equal is value.Equal; each comparison of two items counts as a step.
func (m *Meter) Equal(a, b any) (bool, error) {
	if m == nil {
		return value.Equal(a, b), nil
	}
	switch a.(type) {
	case map[string]any, []any, string:
	default:
		return value.Equal(a, b), m.Step(1)
	}
	before := int(m.maxSteps - m.steps)
	left := before
	equal, finished := value.EqualWithin(a, b, &left)
	if err := m.Step(max(before-left, 1)); err != nil {
		return false, err
	}
	if !finished {
		return false, m.check()
	}
	return equal, nil
}

// Used returns the steps and bytes counted so far.
func (m *Meter) Used() (steps, bytes int64) {
	if m == nil {
		return 0, 0
	}
	return m.steps, m.bytes
}

func (m *Meter) check() error {
	m.untilCheck = checkEvery
	if m.steps > m.maxSteps || m.bytes > m.maxBytes {
		return m.exhausted()
	}
	if m.account != nil && m.account.pacer != nil {
		done := m.work()
		err := m.account.pacer.Pace(m.ctx, done-m.paced)
		m.paced = done
		if errors.Is(err, ErrExhausted) {
			m.over, m.maxSteps, m.maxBytes = err, -1, -1
		}
		if err != nil {
			return err
		}
	}
	if m.ctx == nil {
		return nil
	}
	return m.ctx.Err()
}

// exhausted returns the error that names the exceeded limit. What was refused is not counted beyond the limit.
func (m *Meter) exhausted() error {
	m.steps, m.bytes = min(m.steps, max(m.maxSteps, 0)+1), min(m.bytes, max(m.maxBytes, 0)+1)
	switch {
	case m.over != nil:
	case m.account == nil && m.bytes <= m.ruleBytes && m.steps <= m.ruleSteps:
		return ErrExhausted // the account was already exhausted
	case m.bytes > m.ruleBytes:
		m.Exceed(fmt.Errorf("%w: more than %d bytes of data", ErrExhausted, m.ruleBytes))
		return m.own
	case m.steps > m.ruleSteps:
		m.Exceed(fmt.Errorf("%w: more than %d steps", ErrExhausted, m.ruleSteps))
		return m.own
	default:
		m.over = m.account.over(m.steps+m.beside, m.bytes)
	}
	return m.over
}

// Exceed notes that the rule exceeded a limit of its own.
func (m *Meter) Exceed(err error) {
	if m != nil && m.own == nil {
		m.own = err
	}
}

// Exceeded returns the error of the first limit of the rule that was exceeded, even if the rule hid it; nil for none.
func (m *Meter) Exceeded() error { return m.own }

type meterKey struct{}

// With returns ctx with a meter, for functions that receive only a context.
func With(ctx context.Context, m *Meter) context.Context {
	return context.WithValue(ctx, meterKey{}, m)
}

// Of returns the meter of ctx; nil, which is unlimited, if it has none.
func Of(ctx context.Context) *Meter {
	m, _ := ctx.Value(meterKey{}).(*Meter)
	return m
}

package budget

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ephor-dev/ephor/internal/value"
)

// Limits of one rule evaluation. They are far above what a real policy needs (a Pod Security rule on a 7 kB Pod takes
// some hundred steps, a foreach over 1,000 elements some hundred thousand) and far below what hurts a 2-core process: a
// step takes at most some 10 ns, and what is counted as one byte at most some four bytes of allocation, so that a rule
// that wastes all of its budget takes about 20 ms and 64 MB (the table of bombs in package robustness).
const (
	DefaultSteps = 2_000_000
	DefaultBytes = 16 << 20
	// MaxDepth is the nesting at which a document, an expression or a pattern is refused before it is evaluated.
	MaxDepth = 1000
)

// ErrExhausted is wrapped by every error that a Meter returns because a limit was passed.
var ErrExhausted = errors.New("evaluation budget exhausted")

// Over reports whether err says that the evaluation as a whole is over: a limit was passed or the context is done. What
// the language tolerates of other errors (a default, a skipped element) must not hide such an error.
func Over(err error) bool {
	return err != nil && (errors.Is(err, ErrExhausted) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

const checkEvery = 1024

// Meter counts the steps and bytes of one evaluation. The nil Meter is unlimited. A Meter belongs to one goroutine.
type Meter struct {
	ctx        context.Context
	steps      int64
	bytes      int64
	untilCheck int64
	maxSteps   int64
	maxBytes   int64
}

// New returns a Meter that allows maxSteps steps and maxBytes bytes and stops when ctx is done.
func New(ctx context.Context, maxSteps, maxBytes int64) *Meter {
	m := &Meter{}
	m.Reset(ctx, maxSteps, maxBytes)
	return m
}

// Reset makes m as New would return it, so that an engine can reuse one Meter for many rules.
func (m *Meter) Reset(ctx context.Context, maxSteps, maxBytes int64) {
	*m = Meter{ctx: ctx, untilCheck: checkEvery, maxSteps: maxSteps, maxBytes: maxBytes}
}

// Context is the context of the evaluation; context.Background for the nil Meter.
func (m *Meter) Context() context.Context {
	if m == nil || m.ctx == nil {
		return context.Background()
	}
	return m.ctx
}

// Step counts n steps. It returns an error wrapping ErrExhausted when the step limit is passed, or the context's error
// when the context is done; an evaluation must end with that error.
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

// Bytes counts n bytes of newly made text or data, with the errors of Step.
func (m *Meter) Bytes(n int) error {
	if m == nil {
		return nil
	}
	m.bytes += int64(n)
	if m.bytes > m.maxBytes {
		return fmt.Errorf("%w: more than %d bytes of data", ErrExhausted, m.maxBytes)
	}
	return nil
}

// Weigh counts the bytes of a value that is about to be written as text, whole, with the errors of Step. It walks over the
// value, but no further than the limit of bytes.
func (m *Meter) Weigh(v any) error {
	if m == nil {
		return nil
	}
	if s, ok := v.(string); ok {
		return m.Bytes(len(s))
	}
	return m.Bytes(value.Weigh(v, int(m.maxBytes-m.bytes)))
}

// Walk counts the steps of walking over v, whole, with the errors of Step.
func (m *Meter) Walk(v any) error {
	if m == nil {
		return nil
	}
	return m.Step(1 + value.Weigh(v, int(min(m.maxSteps-m.steps+1, math.MaxInt/walkStep))*walkStep)/walkStep)
}

// walkStep is the weight of what a walk passes in one step.
const walkStep = 32

// Equal is value.Equal, with each item that is compared as a step.
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

// Used reports the steps and bytes counted so far.
func (m *Meter) Used() (steps, bytes int64) {
	if m == nil {
		return 0, 0
	}
	return m.steps, m.bytes
}

func (m *Meter) check() error {
	m.untilCheck = checkEvery
	if m.steps > m.maxSteps {
		return fmt.Errorf("%w: more than %d steps", ErrExhausted, m.maxSteps)
	}
	if m.ctx == nil {
		return nil
	}
	return m.ctx.Err()
}

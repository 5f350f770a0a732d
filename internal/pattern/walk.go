package pattern

import (
	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/trace"
)

// outcome is a set of flags; the empty set means a match.
type outcome uint8

const (
	matched      outcome = 0
	mismatch     outcome = 1 << iota // does not match
	conditionOff                     // a condition () does not hold
	globalOff                        // a global condition <() does not hold
	forbidden                        // a negated key X() is present
)

// skips reports whether the mismatch means that the pattern does not apply.
func (o outcome) skips() bool { return o&(conditionOff|globalOff) != 0 }

// walk is one walk over a pattern and a resource.
type walk struct {
	meter   *budget.Meter
	err     error
	values  []any           // values of the variables, by slot
	late    *lateNodes      // cached nodes of earlier values
	explain bool            // create messages
	notes   bool            // record keys in seen
	seen    map[string]bool // tracked anchor keys: whether some resource map had them
}

// count charges n steps to the budget; the first error ends the walk.
func (w *walk) count(n int) {
	if err := w.meter.Step(n); err != nil && w.err == nil {
		w.err = err
	}
}

// element matches v against n.
func (w *walk) element(n *node, v any, path string) (outcome, *fault) {
	if w.count(3); w.err != nil {
		return mismatch, nil
	}
	n = w.settle(n)
	o, f := w.evaluate(n, v, path)
	f.by(n)
	return o, f
}

func (w *walk) evaluate(n *node, v any, path string) (outcome, *fault) {
	switch n.kind {
	case mapNode:
		m, ok := v.(map[string]any)
		if !ok {
			if !w.explain {
				return mismatch, nil
			}
			return w.fail(mismatch, causeOf(v, trace.Shape), path, "pattern and resource have different structures. Path: %s. Expected map[string]interface {}, found %T", path, v)
		}
		return w.object(n, m, path)
	case listNode:
		l, ok := v.([]any)
		if !ok {
			if !w.explain {
				return mismatch, nil
			}
			return w.fail(mismatch, causeOf(v, trace.Shape), path, "validation rule failed at path %s, resource does not satisfy the expected overlay pattern", path)
		}
		return w.list(n, l, path)
	}
	return w.value(n, v, path)
}

// value matches v against a scalar pattern; for a list, each of its elements.
func (w *walk) value(n *node, v any, path string) (outcome, *fault) {
	ok := true
	if l, isList := v.([]any); isList {
		for _, item := range l {
			if w.count(1 + n.scalar.cost(item)); w.err != nil {
				return mismatch, nil
			}
			if !n.scalar.Match(item) {
				ok = false
				break
			}
		}
	} else {
		if w.count(n.scalar.cost(v)); w.err != nil {
			return mismatch, nil
		}
		ok = n.scalar.Match(v)
	}
	if ok {
		return matched, nil
	}
	if !w.explain {
		return mismatch, nil
	}
	return w.fail(mismatch, causeOf(v, trace.Value), path, "resource value '%v' does not match '%v' at path %s", shown(v), shown(n.scalar.raw), path)
}

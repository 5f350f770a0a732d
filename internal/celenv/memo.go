package celenv

import (
	"reflect"

	"github.com/google/cel-go/common/types/ref"
)

// Memo holds the data that the evaluations of one request share: the values of equal variables that depend only on the object, and the memory
// of an evaluation that has ended. The zero Memo is ready to use. Only one goroutine may use it.
type Memo struct {
	object any
	values []sharedValue
	idle   *Evaluation
}

// sharedValue is the value of a variable, with the cost of its first evaluation.
type sharedValue struct {
	plan *planned
	ref.Val
	work
}

// evaluation returns an empty evaluation.
func (m *Memo) evaluation() *Evaluation {
	if m == nil || m.idle == nil {
		return &Evaluation{}
	}
	e := m.idle
	m.idle = nil
	return e
}

// Release ends the evaluation and lets the next one of the same request use its memory. Afterwards, the caller must not use the
// evaluation or the values of its expressions.
func (e *Evaluation) Release() {
	m := e.in.Memo
	if m == nil || e.lazies != nil || e.failed() != nil { // they may refer to the evaluation
		return
	}
	clear(e.values)
	*e = Evaluation{values: e.values[:0], scopes: e.scopes}
	m.idle = e
}

// recall returns the value of an equal variable of an earlier evaluation; nil if there is none. It charges the cost of that evaluation, so
// that budgets do not depend on other policies.
func (e *Evaluation) recall(x *Expression) ref.Val {
	m := e.in.Memo
	if m == nil || !x.ofObject || e.in.Trace != nil || e.ended() || !sameObject(m.object, e.in.Object) {
		return nil
	}
	for i := range m.values {
		if known := &m.values[i]; known.plan == x.planned {
			e.again(known.work)
			return known.Val
		}
	}
	return nil
}

// remember stores a value for later evaluations with the same object. before is the work spent before the value was evaluated.
func (e *Evaluation) remember(x *Expression, v ref.Val, before work) {
	m := e.in.Memo
	if m == nil || !x.ofObject || e.in.Trace != nil || e.ended() {
		return
	}
	if !sameObject(m.object, e.in.Object) {
		m.object, m.values = e.in.Object, nil
	}
	m.values = append(m.values, sharedValue{x.planned, v, e.since(before)})
}

// sameObject reports whether two objects are the same map.
func sameObject(a, b any) bool {
	x, isMap := a.(map[string]any)
	y, both := b.(map[string]any)
	return isMap && both && reflect.ValueOf(x).Pointer() == reflect.ValueOf(y).Pointer()
}

package celenv

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// orElse is a call of orValue. It evaluates the second argument only if necessary. As in Kyverno, an error in the second argument is the
// result of the call if the value is not optional.
type orElse struct {
	interpreter.InterpretableCall
	value, other interpreter.Interpretable
	direct       *path // the value, if it is a path
}

// Exec implements the library's interface.
func (o *orElse) Exec(frame *interpreter.ExecutionFrame) ref.Val { return o.Eval(frame) }

// Eval implements the library's interface.
func (o *orElse) Eval(vars interpreter.Activation) ref.Val {
	if o.direct != nil {
		switch v, optional, f := o.direct.find(vars); {
		case f == present && optional:
			return natively.NativeToValue(v)
		case f == absent:
			return o.other.Eval(vars)
		}
	}
	v := o.value.Eval(vars)
	optional, ok := v.(*types.Optional)
	switch {
	case !ok && types.IsUnknownOrError(v):
		return v
	case !ok:
		if other := o.other.Eval(vars); types.IsUnknownOrError(other) {
			return other
		}
		return v
	case optional.HasValue():
		return optional.GetValue()
	}
	return o.other.Eval(vars)
}

// orOptional is a call of or with two optional values.
type orOptional struct {
	interpreter.InterpretableCall
	value, other interpreter.Interpretable
}

// Exec implements the library's interface.
func (o *orOptional) Exec(frame *interpreter.ExecutionFrame) ref.Val { return o.Eval(frame) }

// Eval implements the library's interface.
func (o *orOptional) Eval(vars interpreter.Activation) ref.Val {
	v := o.value.Eval(vars)
	if optional, ok := v.(*types.Optional); ok && !optional.HasValue() {
		return o.other.Eval(vars)
	}
	return v
}

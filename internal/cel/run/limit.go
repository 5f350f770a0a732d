package run

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
)

type limitedConstructor struct {
	interpreter.InterpretableConstructor
	at node
}

// Exec implements the library's interface.
func (w limitedConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val { return w.Eval(frame) }

func (w limitedConstructor) Eval(vars interpreter.Activation) ref.Val {
	v := w.InterpretableConstructor.Eval(vars)
	if isStruct(v) {
		return w.at.limitStruct(v, vars)
	}
	return limitValues(v, vars)
}

// isStruct reports whether v is an Object or a JSONPatch. Their fields cannot be read from outside.
func isStruct(v ref.Val) bool {
	switch v.(type) {
	case *dynamic.ObjectVal, *mutation.JSONPatchVal:
		return true
	}
	return false
}

// limitStruct stores the number of values in a struct, which is counted from the fields in its literal.
func (n node) limitStruct(v ref.Val, vars interpreter.Activation) ref.Val {
	if e := evaluationOf(vars); e != nil && !e.sizes.StoreStruct(v, e.arguments[n]) {
		return tooLarge(vars)
	}
	return v
}

// sizesOf returns the sizes of the evaluation; nil if there is none.
func sizesOf(vars interpreter.Activation) *price.Sizes {
	if e := evaluationOf(vars); e != nil {
		return &e.sizes
	}
	return nil
}

// limitValues returns v, together with the number of its values if v is large. If v is too large, it returns an error.
func limitValues(v ref.Val, vars interpreter.Activation) ref.Val {
	switch v.(type) {
	case types.Bool, types.String, types.Int, types.Double, *values.Map:
		return v
	}
	out, ok := sizesOf(vars).Limited(v)
	if !ok {
		return tooLarge(vars)
	}
	return out
}

// tooLarge returns the error as a value. It also stores the error in the evaluation, since variables pass on only its text.
func tooLarge(vars interpreter.Activation) ref.Val {
	if e := evaluationOf(vars); e != nil {
		e.TooLarge()
	}
	return types.WrapErr(price.ErrTooLarge)
}

// limitResult limits the size of the result of a library function.
func limitResult(v ref.Val, vars interpreter.Activation) ref.Val {
	switch x := v.(type) {
	case types.String:
		if len(x) > price.MaxText {
			return tooLarge(vars)
		}
	case traits.Lister, traits.Mapper:
		return limitValues(v, vars)
	}
	return v
}

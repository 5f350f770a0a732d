package celenv

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// node identifies a part of an expression. The library numbers the parts of each expression from 1, and an argument may be a
// variable, which is a separate expression.
type node struct {
	of *ast.AST
	id int64
}

// fieldOf is a field of a struct. Its value is kept until the struct is complete.
type fieldOf struct {
	parent node
	index  int
}

// fields returns the fields of structs by the IDs of their nodes.
func fields(checked *ast.AST) map[int64]fieldOf {
	var out map[int64]fieldOf
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.StructKind {
			return
		}
		if out == nil {
			out = map[int64]fieldOf{}
		}
		for i, f := range e.AsStruct().Fields() {
			out[f.AsStructField().Value().ID()] = fieldOf{node{checked, e.ID()}, i}
		}
	}))
	return out
}

// checks returns a decorator that limits the values that expressions create, checks the price of calls, and counts the iterations of loops.
func (in *planning) checks(loops map[int64]int) interpreter.InterpretableDecorator {
	of := fields(in.checked)
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		id := i.ID()
		i = in.node(i)
		if f, ok := of[id]; ok {
			i = &remembered{i, f}
		}
		if parts, ok := loops[id]; ok {
			i = &loopStep{i, parts}
		}
		return i, nil
	}
}

// remembered evaluates a field of a struct and keeps its value.
type remembered struct {
	interpreter.Interpretable
	fieldOf
}

// Exec implements the library's interface.
func (r *remembered) Exec(frame *interpreter.ExecutionFrame) ref.Val { return r.Eval(frame) }

// Eval implements the library's interface.
func (r *remembered) Eval(vars interpreter.Activation) ref.Val {
	v := r.Interpretable.Eval(vars)
	e := evaluationOf(vars)
	if e == nil {
		return v
	}
	if e.arguments == nil {
		e.arguments = map[node][]ref.Val{}
	}
	known := e.arguments[r.parent]
	e.arguments[r.parent] = append(known[:min(r.index, len(known))], v)
	return v
}

// payComparison charges for comparing a value, by the number of its values. It returns an error value if the budget is used up.
func payComparison(vars interpreter.Activation, v ref.Val) ref.Val {
	w, parts := 0, 0
	switch x := v.(type) {
	case types.Bool, types.Int, types.Double, types.Uint, types.Null, types.String, types.Timestamp, types.Duration:
		return nil
	case jsonList:
		w = valuesInJSON([]any(x))
	case jsonMap:
		w = valuesInJSON(map[string]any(x))
	case traits.Lister, traits.Mapper, *types.Optional, *dynamic.ObjectVal, *mutation.JSONPatchVal:
		w = sizesOf(vars).of(v)
	case types.Bytes:
		parts = len(x) / copiedPerPart
	case apiservercel.Quantity:
		parts = quantityParts
	default:
		parts = sizeInBytes(v) / parsedPerPart
	}
	e := evaluationOf(vars)
	if e == nil {
		return nil
	}
	if w > smallValues {
		e.spend(costPerValue * int64(w))
	}
	if e.take(w + parts); e.ended() {
		return types.WrapErr(errOutOfBudget)
	}
	return nil
}

// evaluationOf returns the evaluation, which may be hidden by frames and by the scopes of comprehensions.
func evaluationOf(vars interpreter.Activation) *Evaluation {
	for vars != nil {
		switch x := vars.(type) {
		case *Evaluation:
			return x
		case *interpreter.ExecutionFrame: // its parent is that of the scope in it
			vars = x.Unwrap()
		default:
			vars = vars.Parent()
		}
	}
	return nil
}

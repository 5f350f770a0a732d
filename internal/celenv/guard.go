package celenv

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// The library charges for a call after it was made. Functions whose result or work is much larger than their arguments
// are asked for their price before.
const (
	// maxText is the longest text that a function may make, in bytes.
	maxText = 4 << 20
	// maxSteps is how many comparisons or steps of a regular expression one call may take.
	maxSteps = 20_000_000
	// costPerValue is what comparing one value of a large list or map costs.
	costPerValue = 10
)

// price says what a call would make or do, and whether that is too much. It is called with the arguments evaluated.
type price func(args []ref.Val, vars interpreter.Activation) (tooMuch bool)

// crossed is the price of comparing each part of one argument with each of another.
func crossed(args []ref.Val, _ interpreter.Activation) bool {
	return len(args) > 1 && size(args[0])*size(args[1]) > maxSteps
}

// size is the length of a text or list; 1 of others.
func size(v ref.Val) int {
	switch x := v.(type) {
	case types.String:
		return len(x)
	case traits.Lister:
		if n, ok := x.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

// node is a part of an expression. The library counts the parts of each expression from 1, and an argument may be a variable,
// which is an expression of its own.
type node struct {
	of *ast.AST
	id int64
}

// fieldOf is a field of a struct, which is remembered until the struct is made.
type fieldOf struct {
	parent node
	index  int
}

// fields finds the fields of structs by the ids of their nodes.
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

// checks makes the evaluation bound the values that expressions make, ask for the price of calls, and count the iterations of loops.
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

// remembered evaluates a field of a struct.
type remembered struct {
	interpreter.Interpretable
	fieldOf
}

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

// payComparison charges for comparing a list or map, by the number of its values. The value is an error when the budget is used up.
func payComparison(vars interpreter.Activation, v ref.Val) ref.Val {
	w := 0
	switch x := v.(type) {
	case largeList:
		w = x.values
	case largeMap:
		w = x.values
	case jsonList:
		w = valuesInJSON([]any(x))
	case jsonMap:
		w = valuesInJSON(map[string]any(x))
	default:
		return nil
	}
	e := evaluationOf(vars)
	if e == nil || w <= smallValues {
		return nil
	}
	if e.spend(costPerValue * int64(w)); e.ended() {
		return types.WrapErr(errOutOfBudget)
	}
	return nil
}

// valuesInJSON counts the values in decoded JSON, as far as anything may hold.
func valuesInJSON(v any) int {
	left := maxValues
	count(v, &left)
	return maxValues - left
}

// evaluationOf finds the evaluation behind the scopes of comprehensions.
func evaluationOf(vars interpreter.Activation) *Evaluation {
	for ; vars != nil; vars = vars.Parent() {
		if e, ok := vars.(*Evaluation); ok {
			return e
		}
	}
	return nil
}

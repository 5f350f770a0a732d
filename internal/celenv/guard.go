package celenv

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
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
	// costPerValue is what comparing one value of a heavy list or map costs.
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

// place is an argument of a call that is checked beforehand, or a field of a struct, which are remembered.
type place struct {
	call      node
	index, of int
	ask       price // nil for comparisons, which pay for heavy values
}

// remember is the price of a struct: it is weighed when it is made.
func remember([]ref.Val, interpreter.Activation) (tooMuch bool) { return false }

// places finds those arguments by the ids of their nodes.
func places(checked *ast.AST) map[int64]place {
	var out map[int64]place
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if out == nil && (e.Kind() == ast.CallKind || e.Kind() == ast.StructKind) {
			out = map[int64]place{}
		}
		at := node{checked, e.ID()}
		if e.Kind() == ast.StructKind {
			fields := e.AsStruct().Fields()
			for i, f := range fields {
				out[f.AsStructField().Value().ID()] = place{call: at, index: i, of: len(fields), ask: remember}
			}
			return
		}
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		ask := prices[call.FunctionName()]
		switch call.FunctionName() {
		case operators.Equals, operators.NotEquals, operators.In:
		default:
			if ask == nil {
				return
			}
		}
		args := call.Args()
		if call.IsMemberFunction() {
			args = append([]ast.Expr{call.Target()}, args...)
		}
		for i, arg := range args {
			if ask == nil && arg.Kind() == ast.LiteralKind {
				continue
			}
			out[arg.ID()] = place{call: at, index: i, of: len(args), ask: ask}
		}
	}))
	return out
}

// checks makes the evaluation weigh what expressions make, and ask for the price of calls: the arguments remember their
// values, and the last of them fails when the call would be too much.
func checks(checked *ast.AST) interpreter.InterpretableDecorator {
	at, loops := places(checked), steps(checked)
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		id := i.ID()
		i = weighing(called(i), node{checked, id})
		if p, ok := at[id]; ok {
			i = &guarded{Interpretable: i, place: p}
		}
		if s, ok := loops[id]; ok {
			i = &turn{i, s}
		}
		return i, nil
	}
}

// guarded evaluates such an argument.
type guarded struct {
	interpreter.Interpretable
	place
}

// Eval implements the library's interface.
func (g *guarded) Eval(vars interpreter.Activation) ref.Val {
	v := g.Interpretable.Eval(vars)
	if g.ask == nil {
		w := 0
		switch x := v.(type) {
		case heavyList:
			w = x.weight
		case heavyMap:
			w = x.weight
		default:
			return v
		}
		if e := evaluationOf(vars); e != nil {
			if e.remaining -= costPerValue * int64(w); e.remaining < 0 {
				return types.WrapErr(errOutOfBudget)
			}
		}
		return v
	}
	e := evaluationOf(vars)
	if e == nil {
		return v
	}
	if e.arguments == nil {
		e.arguments = map[node][]ref.Val{}
	}
	known := append(e.arguments[g.call][:min(g.index, len(e.arguments[g.call]))], v)
	e.arguments[g.call] = known
	if g.index == g.of-1 && len(known) == g.of && g.ask(known, vars) {
		return tooLarge(vars)
	}
	return v
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

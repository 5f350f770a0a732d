package celenv

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// steps returns, by the ID of each loop's step, the number of parts that an iteration evaluates.
func steps(checked *ast.AST) map[int64]int {
	var out map[int64]int
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		if out == nil {
			out = map[int64]int{}
		}
		loop := e.AsComprehension()
		out[loop.LoopStep().ID()] = partsOf(loop.LoopStep()) + partsOf(loop.LoopCondition())
	}))
	return out
}

// partsOf counts the parts of an expression. For nested loops it counts only the range.
func partsOf(e ast.Expr) int {
	n := 1
	switch e.Kind() {
	case ast.ComprehensionKind:
		n += partsOf(e.AsComprehension().IterRange())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			n += partsOf(call.Target())
		}
		for _, arg := range call.Args() {
			n += partsOf(arg)
		}
	case ast.SelectKind:
		n += partsOf(e.AsSelect().Operand())
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			n += partsOf(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n += partsOf(entry.AsMapEntry().Key()) + partsOf(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			n += partsOf(field.AsStructField().Value())
		}
	}
	return n
}

// textInterrupted is the error of a loop that was interrupted. The evaluation reports why.
const textInterrupted = "operation interrupted"

// loopStep evaluates the step of a loop and charges for it.
type loopStep struct {
	interpreter.Interpretable
	parts int
}

// Exec implements the library's interface.
func (t *loopStep) Exec(frame *interpreter.ExecutionFrame) ref.Val { return t.Eval(frame) }

// Eval implements the library's interface.
func (t *loopStep) Eval(vars interpreter.Activation) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return t.Interpretable.Eval(vars)
	}
	if e.ended() {
		return types.NewErr(textInterrupted) // the library's loop goes on to its end, without work
	}
	e.spend(int64(t.parts))
	e.take(t.parts)
	v := t.Interpretable.Eval(vars)
	if e.interrupted() {
		return types.NewErr(textInterrupted)
	}
	return v
}

package celenv

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// The library's accounting keeps the values of an expression on a stack, and looks every name up in the whole of it. A
// loop leaves something there on each turn, so that ten thousand turns look through tens of thousands of values for each
// name. So the step of a loop tells the accounting to forget what the turn left: it poses as a call whose argument is the
// range of the loop, below which everything of the turn lies.

// maxTurns is what all loops of one evaluation may take, in parts of expressions that they evaluate: a turn counts for the
// parts of the loop's condition and step, those of inner loops not included. A part takes less than 100 ns, so that loops
// end within the time that every other kind of rule has; the limits of the API server allow a second. What looks at each of
// 10,000 elements with a handful of calls fits in.
const maxTurns = 200_000

// step is the step of a loop.
type step struct {
	loop  int64 // id of the range
	parts int   // that a turn evaluates
}

// steps finds the steps of loops by their ids.
func steps(checked *ast.AST) map[int64]step {
	var out map[int64]step
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		if out == nil {
			out = map[int64]step{}
		}
		loop := e.AsComprehension()
		out[loop.LoopStep().ID()] = step{loop.IterRange().ID(), partsOf(loop.LoopStep()) + partsOf(loop.LoopCondition())}
	}))
	return out
}

// partsOf counts the parts of an expression, of loops in it only the range.
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

// turn evaluates the step of a loop.
type turn struct {
	interpreter.Interpretable
	step
}

// ID is that of the range, since the value of the turn takes its place: the next turn, or the end of the loop, finds it.
func (t *turn) ID() int64 { return t.loop }

// Function and OverloadID implement the library's call.
func (t *turn) Function() string   { return "" }
func (t *turn) OverloadID() string { return "" }

// Args are the range, and before it something that is never on the stack: the library then knows no price of the call.
func (t *turn) Args() []interpreter.Interpretable {
	return []interpreter.Interpretable{mark{-1}, mark{t.loop}}
}

// Eval implements the library's interface.
func (t *turn) Eval(vars interpreter.Activation) ref.Val {
	if e := evaluationOf(vars); e != nil {
		e.remaining-- // the library's price of the step itself
		if e.turns += t.parts; e.turns > maxTurns {
			e.remaining = -1
		}
	}
	return t.Interpretable.Eval(vars)
}

// mark is an id as the library asks for it; it is never evaluated.
type mark struct{ id int64 }

func (m mark) ID() int64                         { return m.id }
func (mark) Eval(interpreter.Activation) ref.Val { return nil }

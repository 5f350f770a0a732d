package celenv

import "github.com/google/cel-go/common/ast"

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

package price

import "github.com/google/cel-go/common/ast"

// StepParts returns, by the ID of each loop's step, the number of parts that an iteration evaluates.
func StepParts(checked *ast.AST) map[int64]int {
	var out map[int64]int
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		if out == nil {
			out = map[int64]int{}
		}
		loop := e.AsComprehension()
		out[loop.LoopStep().ID()] = PartsOf(loop.LoopStep()) + PartsOf(loop.LoopCondition())
	}))
	return out
}

// PartsOf counts the parts of an expression. For nested loops it counts only the range.
func PartsOf(e ast.Expr) int {
	n := 1
	switch e.Kind() {
	case ast.ComprehensionKind:
		n += PartsOf(e.AsComprehension().IterRange())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			n += PartsOf(call.Target())
		}
		for _, arg := range call.Args() {
			n += PartsOf(arg)
		}
	case ast.SelectKind:
		n += PartsOf(e.AsSelect().Operand())
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			n += PartsOf(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n += PartsOf(entry.AsMapEntry().Key()) + PartsOf(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			n += PartsOf(field.AsStructField().Value())
		}
	}
	return n
}

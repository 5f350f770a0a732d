package price

import "github.com/google/cel-go/common/ast"

// StepNodes returns, by the ID of each loop's step, the number of nodes that an iteration evaluates.
func StepNodes(checked *ast.AST) map[int64]int {
	var out map[int64]int
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		if out == nil {
			out = map[int64]int{}
		}
		loop := e.AsComprehension()
		out[loop.LoopStep().ID()] = NodesOf(loop.LoopStep()) + NodesOf(loop.LoopCondition())
	}))
	return out
}

// NodesOf counts the nodes of an expression. For nested loops it counts only the range.
func NodesOf(e ast.Expr) int {
	n := 1
	switch e.Kind() {
	case ast.ComprehensionKind:
		n += NodesOf(e.AsComprehension().IterRange())
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			n += NodesOf(call.Target())
		}
		for _, arg := range call.Args() {
			n += NodesOf(arg)
		}
	case ast.SelectKind:
		n += NodesOf(e.AsSelect().Operand())
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			n += NodesOf(element)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n += NodesOf(entry.AsMapEntry().Key()) + NodesOf(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			n += NodesOf(field.AsStructField().Value())
		}
	}
	return n
}

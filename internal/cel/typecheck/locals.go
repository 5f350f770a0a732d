package typecheck

import "github.com/google/cel-go/common/ast"

// Locals returns the names of the variables of macros.
func Locals(checked *ast.AST) map[string]bool {
	var out map[string]bool
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		if out == nil {
			out = map[string]bool{}
		}
		c := e.AsComprehension()
		out[c.IterVar()], out[c.IterVar2()], out[c.AccuVar()] = true, true, true
	}))
	return out
}

package typecheck

import (
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
)

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

// Memberships returns the IDs of the calls that look for a value in a list which the expression spells out.
func Memberships(checked *ast.AST) map[int64]bool {
	var out map[int64]bool
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.In || e.AsCall().Args()[1].Kind() != ast.ListKind {
			return
		}
		if out == nil {
			out = map[int64]bool{}
		}
		out[e.ID()] = true
	}))
	return out
}

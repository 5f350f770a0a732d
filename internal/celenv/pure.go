package celenv

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
)

// pure are functions whose result depends on their arguments alone. Others may be as well, but an expression with one is evaluated for
// each policy.
var pure = map[string]bool{
	operators.Add: true, operators.Conditional: true, operators.Equals: true, operators.NotEquals: true, operators.In: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true, operators.NotStrictlyFalse: true,
	operators.Index: true, operators.OptIndex: true, operators.OptSelect: true, orValue: true, "or": true, "size": true,
}

// ofObject reports whether the value of an expression depends on the object alone.
func ofObject(checked *ast.AST) bool {
	local, ok := locals(checked), true
	ast.PreOrderVisit(checked.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			name := e.AsIdent()
			ok = ok && (local[name] || strings.TrimPrefix(name, ".") == plugincel.ObjectVarName)
		case ast.CallKind:
			ok = ok && pure[e.AsCall().FunctionName()]
		case ast.StructKind:
			ok = false
		}
	}))
	return ok
}

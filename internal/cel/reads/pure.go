package reads

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"

	"ephor.invalid/ephor/internal/cel/env"
	"ephor.invalid/ephor/internal/cel/typecheck"
)

// pure lists functions whose result depends only on their arguments. The list may be incomplete: an expression that calls any other function
// is evaluated for each policy.
var pure = map[string]bool{
	operators.Add: true, operators.Conditional: true, operators.Equals: true, operators.NotEquals: true, operators.In: true,
	operators.Less: true, operators.LessEquals: true, operators.Greater: true, operators.GreaterEquals: true,
	operators.LogicalAnd: true, operators.LogicalOr: true, operators.LogicalNot: true, operators.NotStrictlyFalse: true,
	operators.Index: true, operators.OptIndex: true, operators.OptSelect: true, env.OrValue: true, "or": true, "size": true,
}

// OfObject reports whether the value of an expression depends only on the object.
func OfObject(checked *ast.AST) bool {
	local, ok := typecheck.Locals(checked), true
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

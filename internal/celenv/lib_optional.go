package celenv

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
)

// libOptional makes orValue lenient: a value that is not optional is returned as it is. The result has the type dyn, as in Kyverno.
var libOptional = &Library{
	Name:  "optional",
	Doc:   "orValue also accepts a value that is not optional, and returns it unchanged. The type of its result is dyn.",
	Kinds: kindsOf(Validating, Mutating, Generating, Deleting),
	options: func(Declarations) []cel.EnvOption {
		return []cel.EnvOption{
			cel.Function(orValue, cel.Overload(lenientOrValue, []*cel.Type{cel.DynType, cel.DynType}, cel.DynType)),
			cel.Macros(cel.ReceiverMacro(orValue, 1, func(f cel.MacroExprFactory, target ast.Expr, args []ast.Expr) (ast.Expr, *cel.Error) {
				return f.NewCall(orValue, target, args[0]), nil
			})),
		}
	},
}

const (
	orValue        = "orValue"
	lenientOrValue = "policies_orValue_dyn_dyn"
)

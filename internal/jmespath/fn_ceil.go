package jmespath

import "math"

func init() {
	register(Function{
		Name: "ceil", Args: one(Number), Returns: []Type{Number}, Builtin: true,
		Doc:      "Rounds up to a whole number.",
		Examples: []Example{{Expression: "ceil(`1.2`)", Result: `2`}},
		call:     func(_ *Env, args []any) (any, error) { return math.Ceil(number(args[0])), nil },
	})
}

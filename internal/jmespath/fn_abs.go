package jmespath

import "math"

func init() {
	register(Function{
		Name: "abs", Args: one(Number), Returns: []Type{Number}, Builtin: true,
		Doc:      "Returns the absolute value of a number.",
		Examples: []Example{{Expression: "abs(`-3`)", Result: `3`}},
		call:     func(_ *Env, args []any) (any, error) { return math.Abs(number(args[0])), nil },
	})
}

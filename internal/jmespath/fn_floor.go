package jmespath

import "math"

func init() {
	register(Function{
		Name: "floor", Args: one(Number), Returns: []Type{Number}, Builtin: true,
		Doc:      "Rounds down to a whole number.",
		Examples: []Example{{Expression: "floor(`1.8`)", Result: `1`}},
		call:     func(_ *Env, args []any) (any, error) { return math.Floor(number(args[0])), nil },
	})
}

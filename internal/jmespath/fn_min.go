package jmespath

func init() {
	register(Function{
		Name: "min", Args: [][]Type{{ArrayNumber, ArrayString}}, Returns: []Type{Any}, Builtin: true,
		Doc: "Returns the least number or string of a list; null for an empty list.",
		Examples: []Example{
			{Expression: "min(`[2, 1, 3]`)", Result: `1`},
			{Expression: "min(`[]`)", Result: `null`},
		},
		call: func(_ *Env, args []any) (any, error) { return best(args[0].([]any), -1), nil },
	})
}

package jmespath

func init() {
	register(Function{
		Name: "subtract", Args: one(Any, Any), Returns: []Type{Any},
		Doc: "Subtracts two numbers, two quantities or two durations.",
		Examples: []Example{
			{Expression: "subtract(`1`, `2.5`)", Result: `-1.5`},
			{Expression: "subtract('1Gi', '512Mi')", Result: `"512Mi"`},
			{Expression: "subtract('90s', '1h')", Result: `"-58m30s"`},
		},
		call: func(env *Env, args []any) (any, error) {
			return arithmetic(env, "subtract", subtract, args[0], args[1])
		},
	})
}

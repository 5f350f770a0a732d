package jmespath

func init() {
	register(Function{
		Name: "divide", Args: one(Any, Any), Returns: []Type{Any},
		Doc: "Divides two numbers, two quantities or two durations, which gives a number, or a quantity or duration by a number.",
		Examples: []Example{
			{Expression: "divide(`6`, `2.5`)", Result: `2.4`},
			{Expression: "divide('1Gi', '256Mi')", Result: `4`},
			{Expression: "divide('1Gi', `4`)", Result: `"256Mi"`},
			{Expression: "divide('90s', `2`)", Result: `"45s"`},
			{Expression: "divide(`1`, `0`)", Error: `JMESPath function 'divide': Zero divisor passed`},
		},
		call: func(env *Env, args []any) (any, error) { return arithmetic(env, "divide", divide, args[0], args[1]) },
	})
}

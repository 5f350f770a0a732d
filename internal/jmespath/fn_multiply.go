package jmespath

func init() {
	register(Function{
		Name: "multiply", Args: one(Any, Any), Returns: []Type{Any},
		Doc: "Multiplies two numbers, or a number and a quantity or duration.",
		Examples: []Example{
			{Expression: "multiply(`2`, `2.5`)", Result: `5`},
			{Expression: "multiply('1Gi', `6`)", Result: `"6Gi"`},
			{Expression: "multiply(`-2`, '1h')", Result: `"-2h0m0s"`},
			{Expression: "multiply('1Gi', '1Gi')", Error: `JMESPath function 'multiply': Types mismatch`},
		},
		call: func(env *Env, args []any) (any, error) {
			return arithmetic(env, "multiply", multiply, args[0], args[1])
		},
	})
}

package jmespath

func init() {
	register(Function{
		Name: "add", Args: one(Any, Any), Returns: []Type{Any},
		Doc: "Adds two numbers, two quantities or two durations.",
		Examples: []Example{
			{Expression: "add(`1.5`, `2`)", Result: `3.5`},
			{Expression: "add('1Gi', '512Mi')", Result: `"1536Mi"`},
			{Expression: "add('1h', '90m30s')", Result: `"2h30m30s"`},
			{Expression: "add('1h', '30m')", Error: `JMESPath function 'add': Types mismatch`}, // 30m is a quantity: 30 milli
		},
		call: func(env *Env, args []any) (any, error) { return arithmetic(env, "add", add, args[0], args[1]) },
	})
}

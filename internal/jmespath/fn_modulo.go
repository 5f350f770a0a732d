package jmespath

func init() {
	register(Function{
		Name: "modulo", Args: one(Any, Any), Returns: []Type{Any},
		Doc: "Returns the remainder of the division of two whole numbers, two whole quantities or two durations.",
		Examples: []Example{
			{Expression: "modulo(`7`, `3`)", Result: `1`},
			{Expression: "modulo('1Gi', '100Mi')", Result: `"24Mi"`},
			{Expression: "modulo('95s', '1m30s')", Result: `"5s"`},
			{Expression: "modulo(`7.5`, `3`)", Error: `JMESPath function 'modulo': Non-integer argument(s) passed for modulo`},
		},
		call: func(env *Env, args []any) (any, error) { return arithmetic(env, "modulo", modulo, args[0], args[1]) },
	})
}

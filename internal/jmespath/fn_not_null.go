package jmespath

func init() {
	register(Function{
		Name: "not_null", Args: one(Any), Variadic: true, Returns: []Type{Any}, Builtin: true,
		Doc: "Returns the first argument that is neither null nor missing; null if there is none.",
		Examples: []Example{
			{Expression: "not_null(a, b, 'z')", Input: `{"b": ""}`, Result: `""`},
			{Expression: "not_null(missing, 'z')", Input: `{}`, Result: `"z"`},
		},
		call: func(_ *Env, args []any) (any, error) {
			for _, arg := range args {
				if arg != nil {
					return arg, nil
				}
			}
			return nil, nil
		},
	})
}

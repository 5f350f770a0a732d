package jmespath

func init() {
	register(Function{
		Name: "type", Args: one(Any), Returns: []Type{String}, Builtin: true,
		Doc:      "Returns the type of a value: string, number, boolean, array, object or null.",
		Examples: []Example{{Expression: "[type('a'), type(`1`), type(`null`)]", Input: `{}`, Result: `["string", "number", "null"]`}},
		call: func(_ *Env, args []any) (any, error) {
			for _, t := range []Type{String, Number, Boolean, Array, Object} {
				if is(args[0], t) {
					return string(t), nil
				}
			}
			return "null", nil
		},
	})
}

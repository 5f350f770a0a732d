package jmespath

func init() {
	register(Function{
		Name: "to_array", Args: one(Any), Returns: []Type{Array}, Builtin: true,
		Doc: "Returns a list unchanged, and any other value as a list with one item.",
		Examples: []Example{
			{Expression: "to_array('a')", Result: `["a"]`},
			{Expression: "to_array(`[1]`)", Result: `[1]`},
		},
		call: func(_ *Env, args []any) (any, error) {
			if list, ok := args[0].([]any); ok {
				return list, nil
			}
			return []any{args[0]}, nil
		},
	})
}

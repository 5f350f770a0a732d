package jmespath

func init() {
	register(Function{
		Name: "to_array", Args: one(Any), Returns: []Type{Array}, Builtin: true,
		Doc: "A list as it is; anything else as a list of one item.",
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

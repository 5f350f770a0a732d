package jmespath

func init() {
	register(Function{
		Name: "map", Args: one(Expression, Array), Returns: []Type{Array}, Builtin: true,
		Doc:      "Returns the results of an expression for each item of a list, including nulls.",
		Examples: []Example{{Expression: "map(&a, @)", Input: `[{"a": 1}, {}]`, Result: `[1, null]`}},
		call: func(env *Env, args []any) (any, error) {
			ref, list := args[0].(*expref), args[1].([]any)
			if err := env.items(len(list)); err != nil {
				return nil, err
			}
			out := make([]any, len(list))
			for i, item := range list {
				r, err := ref.on(env, item)
				if err != nil {
					return nil, err
				}
				if out[i], err = whole(r); err != nil {
					return nil, err
				}
			}
			return out, nil
		},
	})
}

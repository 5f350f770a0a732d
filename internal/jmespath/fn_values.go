package jmespath

func init() {
	register(Function{
		Name: "values", Args: one(Object), Returns: []Type{Array}, Builtin: true,
		Doc:      "Returns the values of an object, in the order of their keys.",
		Examples: []Example{{Expression: "values(@)", Input: `{"b": 1, "a": 2}`, Result: `[2, 1]`}},
		call: func(env *Env, args []any) (any, error) {
			m := args[0].(map[string]any)
			if err := env.items(len(m)); err != nil {
				return nil, err
			}
			keys, err := env.sortedKeys(m)
			out := make([]any, 0, len(m))
			for _, k := range keys {
				out = append(out, m[k])
			}
			return out, err
		},
	})
}

package jmespath

func init() {
	register(Function{
		Name: "keys", Args: one(Object), Returns: []Type{Array}, Builtin: true,
		Doc:      "Returns the keys of an object, sorted.",
		Examples: []Example{{Expression: "keys(@)", Input: `{"b": 1, "a": 2}`, Result: `["a", "b"]`}},
		call: func(env *Env, args []any) (any, error) {
			m := args[0].(map[string]any)
			if err := env.items(2 * len(m)); err != nil {
				return nil, err
			}
			keys, err := env.sortedKeys(m)
			out := make([]any, len(keys))
			for i, k := range keys {
				out[i] = k
			}
			return out, err
		},
	})
}

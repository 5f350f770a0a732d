package jmespath

func init() {
	register(Function{
		Name: "values", Args: one(Object), Returns: []Type{Array}, Builtin: true,
		Doc:      "Returns the values of an object, in the order of their keys.",
		Examples: []Example{{Expression: "values(@)", Input: `{"b": 1, "a": 2}`, Result: `[2, 1]`}},
		call: func(env *Env, args []any) (any, error) {
			m := args[0].(map[string]any)
			out := make([]any, 0, len(m))
			for _, k := range sortedKeys(m) {
				out = append(out, m[k])
			}
			return out, env.items(len(out))
		},
	})
}

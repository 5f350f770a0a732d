package jmespath

func init() {
	register(Function{
		Name: "merge", Args: one(Object), Variadic: true, Returns: []Type{Object}, Builtin: true,
		Doc: "Merges the keys of all arguments into one object; if a key occurs more than once, the last value takes precedence.",
		Examples: []Example{
			{Expression: "merge(`{\"a\": 1, \"b\": 2}`, `{\"b\": 3}`)", Result: `{"a": 1, "b": 3}`},
			{Expression: "merge(`{}`, 'x')", Error: `Invalid type for: x, expected: []jmespath.JpType{"object"}`},
		},
		call: func(env *Env, args []any) (any, error) {
			total := 0
			for i, arg := range args {
				m, ok := arg.(map[string]any)
				if !ok {
					return nil, registry["merge"].typeError(i, arg, []Type{Object})
				}
				total += len(m)
			}
			if err := env.keys(total); err != nil {
				return nil, err
			}
			out := make(map[string]any, total)
			for _, arg := range args {
				for k, v := range arg.(map[string]any) {
					out[k] = v
				}
			}
			return out, nil
		},
	})
}

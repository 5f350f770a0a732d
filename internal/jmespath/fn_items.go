package jmespath

func init() {
	register(Function{
		Name: "items", Args: [][]Type{{Object, Array}, {String}, {String}}, Returns: []Type{Array},
		Doc: "Returns a list of objects, one for each key of an object (sorted) or each item of a list. The second argument names the field for the key or index, the third the field for the value. If both names are equal, the value takes precedence.",
		Examples: []Example{
			{Expression: "items(@, 'key', 'value')", Input: `{"b": 1, "a": 2}`, Result: `[{"key": "a", "value": 2}, {"key": "b", "value": 1}]`},
			{Expression: "items(@, 'i', 'v')", Input: `["x"]`, Result: `[{"i": 0, "v": "x"}]`},
		},
		call: func(env *Env, args []any) (any, error) {
			key, val := args[1].(string), args[2].(string)
			if err := env.bytes(size(args[0]) * 300); err != nil {
				return nil, err
			}
			var out []any
			if list, ok := args[0].([]any); ok {
				out = make([]any, len(list))
				for i, v := range list {
					out[i] = pair(key, float64(i), val, v)
				}
			} else {
				m := args[0].(map[string]any)
				out = make([]any, 0, len(m))
				keys, err := env.sortedKeys(m)
				if err != nil {
					return nil, err
				}
				for _, k := range keys {
					out = append(out, pair(key, k, val, m[k]))
				}
			}
			return out, nil
		},
	})
}

func pair(key string, k any, val string, v any) map[string]any {
	m := map[string]any{key: k}
	m[val] = v
	return m
}

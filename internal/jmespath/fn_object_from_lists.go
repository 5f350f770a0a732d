package jmespath

import "fmt"

func init() {
	register(Function{
		Name: "object_from_lists", Args: one(Array, Array), Returns: []Type{Object},
		Doc: "Builds an object from the keys in the first list and the values in the second. Missing values are null, surplus values are ignored.",
		Examples: []Example{
			{Expression: "object_from_lists(`[\"a\", \"b\"]`, `[1]`)", Result: `{"a": 1, "b": null}`},
			{Expression: "object_from_lists(`[2]`, `[1, 3]`)", Result: `{"2": 1}`},
		},
		call: func(env *Env, args []any) (any, error) {
			keys, values := args[0].([]any), args[1].([]any)
			if err := env.keys(len(keys)); err != nil {
				return nil, err
			}
			out := make(map[string]any, len(keys))
			for i, k := range keys {
				var v any
				if i < len(values) {
					v = values[i]
				}
				if err := env.Meter.Text(k); err != nil {
					return nil, err
				}
				out[keyText(k)] = v
			}
			return out, nil
		},
	})
}

func keyText(v any) string {
	if s, ok := textOf(v); ok {
		return s
	}
	return fmt.Sprint(floats(v))
}

package jmespath

import "unicode/utf8"

func init() {
	register(Function{
		Name: "length", Args: [][]Type{{String, Array, Object}}, Returns: []Type{Number}, Builtin: true,
		Doc: "Returns the number of characters, items or keys.",
		Examples: []Example{
			{Expression: "length('Grüße')", Result: `5`},
			{Expression: "length(`[1, 2]`)", Result: `2`},
			{Expression: "length(missing)", Input: `{}`, Error: `Invalid type for: <nil>, expected: []jmespath.JpType{"string", "array", "object"}`},
		},
		call: func(_ *Env, args []any) (any, error) {
			switch v := args[0].(type) {
			case string:
				return float64(utf8.RuneCountInString(v)), nil
			case []any:
				return float64(len(v)), nil
			}
			return float64(len(args[0].(map[string]any))), nil
		},
	})
}

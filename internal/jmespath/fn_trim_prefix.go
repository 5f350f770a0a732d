package jmespath

import "strings"

func init() {
	register(Function{
		Name: "trim_prefix", Args: one(String, String), Returns: []Type{String},
		Doc:      "Removes the second argument from the beginning of a string.",
		Examples: []Example{{Expression: "trim_prefix('v1.2.3', 'v')", Result: `"1.2.3"`}},
		call: func(_ *Env, args []any) (any, error) {
			return strings.TrimPrefix(args[0].(string), args[1].(string)), nil
		},
	})
}

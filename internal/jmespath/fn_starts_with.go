package jmespath

import "strings"

func init() {
	register(Function{
		Name: "starts_with", Args: one(String, String), Returns: []Type{Boolean}, Builtin: true,
		Doc:      "Whether the first string begins with the second.",
		Examples: []Example{{Expression: "starts_with('ghcr.io/x', 'ghcr.io/')", Result: `true`}},
		call: func(_ *Env, args []any) (any, error) {
			return strings.HasPrefix(args[0].(string), args[1].(string)), nil
		},
	})
}

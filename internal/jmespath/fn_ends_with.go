package jmespath

import "strings"

func init() {
	register(Function{
		Name: "ends_with", Args: one(String, String), Returns: []Type{Boolean}, Builtin: true,
		Doc:      "Whether the first string ends with the second.",
		Examples: []Example{{Expression: "ends_with('nginx:latest', ':latest')", Result: `true`}},
		call: func(_ *Env, args []any) (any, error) {
			return strings.HasSuffix(args[0].(string), args[1].(string)), nil
		},
	})
}

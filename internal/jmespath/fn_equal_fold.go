package jmespath

import "strings"

func init() {
	register(Function{
		Name: "equal_fold", Args: one(String, String), Returns: []Type{Boolean},
		Doc:      "Whether two strings are equal, ignoring case.",
		Examples: []Example{{Expression: "equal_fold('Go', 'GO')", Result: `true`}},
		call: func(_ *Env, args []any) (any, error) {
			return strings.EqualFold(args[0].(string), args[1].(string)), nil
		},
	})
}

package jmespath

import "strings"

func init() {
	register(Function{
		Name: "to_lower", Args: one(String), Returns: []Type{String},
		Doc:      "Converts a string to lower case.",
		Examples: []Example{{Expression: "to_lower('Abc')", Result: `"abc"`}},
		call:     func(env *Env, args []any) (any, error) { return env.text(strings.ToLower(args[0].(string))) },
	})
}

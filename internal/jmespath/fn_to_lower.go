package jmespath

import "strings"

func init() {
	register(Function{
		Name: "to_lower", Args: one(String), Returns: []Type{String},
		Doc:      "Converts a string to lower case.",
		Examples: []Example{{Expression: "to_lower('Abc')", Result: `"abc"`}},
		call: func(env *Env, args []any) (any, error) {
			s := args[0].(string)
			if err := env.step(len(s) / 12); err != nil {
				return nil, err
			}
			return env.text(strings.ToLower(s))
		},
	})
}

package jmespath

import "strings"

func init() {
	register(Function{
		Name: "to_upper", Args: one(String), Returns: []Type{String},
		Doc:      "Converts a string to upper case.",
		Examples: []Example{{Expression: "to_upper('Abc')", Result: `"ABC"`}},
		call: func(env *Env, args []any) (any, error) {
			s := args[0].(string)
			if err := env.step(len(s) / 12); err != nil {
				return nil, err
			}
			return env.text(strings.ToUpper(s))
		},
	})
}

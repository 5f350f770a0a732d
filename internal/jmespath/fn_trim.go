package jmespath

import "strings"

func init() {
	register(Function{
		Name: "trim", Args: one(String, String), Returns: []Type{String},
		Doc:      "Removes the characters of the second argument from both ends of a string.",
		Examples: []Example{{Expression: "trim('!?hello?!', '?!')", Result: `"hello"`}},
		call: func(env *Env, args []any) (any, error) {
			s, characters := args[0].(string), args[1].(string)
			if err := env.step(len(s) * len(characters) / readPerStep); err != nil { // each character is looked for
				return nil, err
			}
			return strings.Trim(s, characters), nil
		},
	})
}

package jmespath

import "strings"

func init() {
	register(Function{
		Name: "trim", Args: one(String, String), Returns: []Type{String},
		Doc:      "Removes the characters of the second argument from both ends of a string.",
		Examples: []Example{{Expression: "trim('!?hello?!', '?!')", Result: `"hello"`}},
		call: func(_ *Env, args []any) (any, error) {
			return strings.Trim(args[0].(string), args[1].(string)), nil
		},
	})
}

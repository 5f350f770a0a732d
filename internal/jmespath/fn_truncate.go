package jmespath

func init() {
	register(Function{
		Name: "truncate", Args: one(String, Number), Returns: []Type{String},
		Doc: "Shortens a string to the number of characters in the second argument.",
		Examples: []Example{
			{Expression: "truncate('Grüße', `3`)", Result: `"Grü"`},
			{Expression: "truncate('abc', `-1`)", Result: `""`},
		},
		call: func(_ *Env, args []any) (any, error) {
			s, left := args[0].(string), number(args[1])
			for i := range s {
				if left--; left < 0 {
					return s[:i], nil
				}
			}
			return s, nil
		},
	})
}

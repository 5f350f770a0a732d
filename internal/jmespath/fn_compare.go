package jmespath

import "strings"

func init() {
	register(Function{
		Name: "compare", Args: one(String, String), Returns: []Type{Number},
		Doc:      "-1, 0 or 1 as the first string is before, equal to or behind the second, byte by byte.",
		Examples: []Example{{Expression: "compare('a', 'b')", Result: `-1`}},
		call: func(_ *Env, args []any) (any, error) {
			return float64(strings.Compare(args[0].(string), args[1].(string))), nil
		},
	})
}

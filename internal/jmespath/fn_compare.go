package jmespath

import "strings"

func init() {
	register(Function{
		Name: "compare", Args: one(String, String), Returns: []Type{Number},
		Doc:      "Returns -1, 0 or 1 if the first string sorts before, equals or sorts after the second, byte by byte.",
		Examples: []Example{{Expression: "compare('a', 'b')", Result: `-1`}},
		call: func(_ *Env, args []any) (any, error) {
			return float64(strings.Compare(args[0].(string), args[1].(string))), nil
		},
	})
}

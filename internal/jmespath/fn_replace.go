package jmespath

import "math"

func init() {
	register(Function{
		Name: "replace", Args: one(String, String, String, Number), Returns: []Type{String},
		Doc: "Replaces the second argument in a string by the third, up to the number of times in the fourth; a negative number means everywhere.",
		Examples: []Example{
			{Expression: "replace('hello', 'l', 'L', `1`)", Result: `"heLlo"`},
			{Expression: "replace('hello', 'l', 'L', `-1`)", Result: `"heLLo"`},
		},
		call: func(env *Env, args []any) (any, error) {
			n := number(args[3])
			if math.Abs(n) > math.MaxInt32 {
				n = math.Copysign(math.MaxInt32, n)
			}
			return replace(env, args[0].(string), args[1].(string), args[2].(string), int(n))
		},
	})
}

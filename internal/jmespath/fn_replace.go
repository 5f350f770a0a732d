package jmespath

import "math"

func init() {
	register(Function{
		Name: "replace", Args: one(String, String, String, Number), Returns: []Type{String},
		Doc: "A string in which the second argument is replaced by the third, at most as often as the fourth says; less than zero means everywhere.",
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

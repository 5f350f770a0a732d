package jmespath

func init() {
	register(Function{
		Name: "max", Args: [][]Type{{ArrayNumber, ArrayString}}, Returns: []Type{Any}, Builtin: true,
		Doc: "Returns the greatest number or string of a list; null for an empty list.",
		Examples: []Example{
			{Expression: "max(`[1, 3, 2]`)", Result: `3`},
			{Expression: "max(`[\"a\", \"b\"]`)", Result: `"b"`},
			{Expression: "max(`[]`)", Result: `null`},
		},
		call: func(_ *Env, args []any) (any, error) { return best(args[0].([]any), 1), nil },
	})
}

// best returns the greatest (sign 1) or least (sign -1) item of a list of numbers or of strings; the first, if several are equal.
func best(list []any, sign int) any {
	var out any
	for i, item := range list {
		if i == 0 || sign*order(item, out) > 0 {
			out = item
		}
	}
	return out
}

package jmespath

func init() {
	register(Function{
		Name: "sum", Args: one(Array), Returns: []Type{Any},
		Doc: "Adds the numbers, quantities or durations of a list.",
		Examples: []Example{
			{Expression: "sum(`[1, 2, 3]`)", Result: `6`},
			{Expression: "sum(`[\"1Mi\", \"2Mi\"]`)", Result: `"3Mi"`},
			{Expression: "sum(`[]`)", Error: `JMESPath function 'sum': at least one element in the array is required`},
		},
		call: func(env *Env, args []any) (any, error) {
			list := args[0].([]any)
			if len(list) == 0 {
				return nil, functionError("sum", "at least one element in the array is required")
			}
			if err := env.Meter.Walk(list[0]); err != nil {
				return nil, err
			}
			out := floats(list[0])
			if err := env.step(3 * len(list)); err != nil {
				return nil, err
			}
			for _, item := range list[1:] {
				var err error
				if out, err = arithmetic(env, "sum", add, out, item); err != nil {
					return nil, err
				}
			}
			return out, nil
		},
	})
}

package jmespath

func init() {
	register(Function{
		Name: "avg", Args: one(ArrayNumber), Returns: []Type{Number}, Builtin: true,
		Doc: "Returns the average of the numbers of a list. An empty list is an error.",
		Examples: []Example{
			{Expression: "avg(`[1, 2, 6]`)", Result: `3`},
			{Expression: "avg(`[]`)", Error: `JMESPath function 'avg': at least one element in the array is required`},
		},
		call: func(_ *Env, args []any) (any, error) {
			list := args[0].([]any)
			if len(list) == 0 {
				return nil, functionError("avg", "at least one element in the array is required")
			}
			sum := 0.0
			for _, item := range list {
				sum += number(item)
			}
			return sum / float64(len(list)), nil
		},
	})
}

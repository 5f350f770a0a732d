package jmespath

import "math"

func init() {
	register(Function{
		Name: "lookup", Args: [][]Type{{Object, Array}, {String, Number}}, Returns: []Type{Any},
		Doc: "Returns the value at a computed key of an object or index of a list; null if there is none.",
		Examples: []Example{
			{Expression: "lookup(@, 'a')", Input: `{"a": 1}`, Result: `1`},
			{Expression: "lookup(@, 'b')", Input: `{"a": 1}`, Result: `null`},
			{Expression: "lookup(@, `0.5`)", Input: `["x"]`, Error: `JMESPath function 'lookup': argument #2: expected an integer number but got: 0.5`},
		},
		call: func(_ *Env, args []any) (any, error) {
			if m, ok := args[0].(map[string]any); ok {
				key, ok := args[1].(string)
				if !ok {
					return nil, functionError("lookup", "argument #2 is not of type String")
				}
				return m[key], nil
			}
			if !is(args[1], Number) {
				return nil, functionError("lookup", "argument #2 is not of type Number")
			}
			list, i := args[0].([]any), number(args[1])
			if i != math.Trunc(i) {
				return nil, functionError("lookup", "argument #2: expected an integer number but got: %s", numberText(i))
			}
			if i < 0 || i >= float64(len(list)) {
				return nil, nil
			}
			return list[int(i)], nil
		},
	})
}

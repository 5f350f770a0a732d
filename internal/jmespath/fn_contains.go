package jmespath

import "strings"

func init() {
	register(Function{
		Name: "contains", Args: [][]Type{{Array, String}, {Any}}, Returns: []Type{Boolean}, Builtin: true,
		Doc: "Whether a list has an item that equals the second argument, or a string contains it. A string never contains a value of another type.",
		Examples: []Example{
			{Expression: "contains(`[\"a\", \"b\"]`, 'b')", Result: `true`},
			{Expression: "contains('hello', 'ell')", Result: `true`},
			{Expression: "contains('3', `3`)", Result: `false`},
		},
		call: func(env *Env, args []any) (any, error) {
			if s, ok := args[0].(string); ok {
				part, ok := args[1].(string)
				return ok && strings.Contains(s, part), nil
			}
			for _, item := range args[0].([]any) {
				equal, err := env.Meter.Equal(item, args[1])
				if equal || err != nil {
					return equal, err
				}
			}
			return false, nil
		},
	})
}

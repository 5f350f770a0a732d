package jmespath

import "strings"

func init() {
	register(Function{
		Name: "split", Args: one(String, String), Returns: []Type{Array},
		Doc: "Splits a string at a separator; an empty separator splits it into characters.",
		Examples: []Example{
			{Expression: "split('a,b,c', ',')", Result: `["a", "b", "c"]`},
			{Expression: "split('abc', '')", Result: `["a", "b", "c"]`},
		},
		call: func(env *Env, args []any) (any, error) {
			s, separator := args[0].(string), args[1].(string)
			if err := env.bytes(48 * (1 + strings.Count(s, separator))); err != nil {
				return nil, err
			}
			parts := strings.Split(s, separator)
			out := make([]any, len(parts))
			for i, part := range parts {
				out[i] = part
			}
			return out, nil
		},
	})
}

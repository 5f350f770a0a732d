package jmespath

import "ephor.invalid/ephor/internal/value"

func init() {
	register(Function{
		Name: "parse_json", Args: one(String), Returns: []Type{Any},
		Doc: "Parses JSON.",
		Examples: []Example{
			{Expression: "parse_json('{\"a\": [1, true]}')", Result: `{"a": [1, true]}`},
			{Expression: "parse_json('{')", Error: `unexpected end of JSON input`},
		},
		call: func(env *Env, args []any) (any, error) {
			s := args[0].(string)
			if err := env.step(len(s)); err != nil {
				return nil, err
			}
			if err := env.bytes(12 * len(s)); err != nil {
				return nil, err
			}
			return value.DecodeJSONFloat([]byte(s))
		},
	})
}

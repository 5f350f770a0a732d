package jmespath

import "ephor.invalid/ephor/internal/wildcard"

func init() {
	register(Function{
		Name: "pattern_match", Args: [][]Type{{String}, {String, Number}}, Returns: []Type{Boolean},
		Doc: "Whether a wildcard pattern (* any text, ? one character) matches a string or a number written as text.",
		Examples: []Example{
			{Expression: "pattern_match('prefix-*', 'prefix-foo')", Result: `true`},
			{Expression: "pattern_match('12*', `123`)", Result: `true`},
		},
		call: func(env *Env, args []any) (any, error) {
			pattern, s := args[0].(string), text(args[1])
			if err := env.step(1 + wildcard.Cost(pattern, s)); err != nil {
				return nil, err
			}
			return wildcard.Match(pattern, s), nil
		},
	})
}

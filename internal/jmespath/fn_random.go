package jmespath

import (
	"errors"
	"fmt"

	"ephor.invalid/ephor/internal/textgen"
	"ephor.invalid/ephor/internal/world"
)

func init() {
	register(Function{
		Name: "random", Args: one(String), Returns: []Type{String},
		Doc: "Returns a random string that matches a regular expression. * and + repeat at most 10 times.",
		Examples: []Example{
			{Expression: "regex_match('^[0-9a-z]{8}$', random('[0-9a-z]{8}'))", Result: `true`},
			{Expression: "random('literal')", Result: `"literal"`},
			{Expression: "random('')", Error: `no pattern provided`},
		},
		call: func(env *Env, args []any) (any, error) {
			pattern := args[0].(string)
			switch {
			case pattern == "":
				return nil, errors.New("no pattern provided")
			case len(pattern) > maxRegex:
				return nil, functionError("random", "%w: %d bytes of pattern", ErrTooLarge, len(pattern))
			}
			if env.World.Rand == nil {
				return nil, fmt.Errorf("JMESPath function 'random': random numbers are %w", world.ErrUnavailable)
			}
			text, err := textgen.Text(pattern, env.World.Rand, env.step)
			switch {
			case errors.Is(err, textgen.ErrTooLarge):
				return nil, functionError("random", "%w: %w", ErrTooLarge, err)
			case errors.Is(err, textgen.ErrNoText):
				return nil, functionError("random", "%w", err)
			case err != nil:
				return nil, err
			}
			return env.text(text)
		},
	})
}

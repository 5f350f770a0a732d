package jmespath

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/value"
)

func init() {
	register(Function{
		Name: "contains", Args: [][]Type{{Array, String}, {Any}}, Returns: []Type{Boolean}, Builtin: true,
		Doc: "Whether a list has an item that equals the second argument, or a string contains it. A string never contains what is not a string.",
		Examples: []Example{
			{Expression: "contains(`[\"a\", \"b\"]`, 'b')", Result: `true`},
			{Expression: "contains('hello', 'ell')", Result: `true`},
			{Expression: "contains('3', `3`)", Result: `false`},
		},
		call: func(_ *Env, args []any) (any, error) {
			if s, ok := args[0].(string); ok {
				part, ok := args[1].(string)
				return ok && strings.Contains(s, part), nil
			}
			for _, item := range args[0].([]any) {
				if value.Equal(item, args[1]) {
					return true, nil
				}
			}
			return false, nil
		},
	})
}

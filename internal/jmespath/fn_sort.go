package jmespath

import (
	"cmp"
	"slices"
	"strings"
)

func init() {
	register(Function{
		Name: "sort", Args: [][]Type{{ArrayString, ArrayNumber}}, Returns: []Type{Array}, Builtin: true,
		Doc: "Sorts a list of strings or of numbers.",
		Examples: []Example{
			{Expression: "sort(`[3, 1, 2]`)", Result: `[1, 2, 3]`},
			{Expression: "sort(`[\"b\", \"a\"]`)", Result: `["a", "b"]`},
		},
		call: func(env *Env, args []any) (any, error) {
			list := args[0].([]any)
			if err := env.items(len(list)); err != nil {
				return nil, err
			}
			text := 0
			for _, item := range list {
				s, _ := item.(string)
				text += len(s)
			}
			if err := env.sorting(len(list), text); err != nil {
				return nil, err
			}
			out := slices.Clone(list)
			slices.SortStableFunc(out, order)
			return out, nil
		},
	})
}

// order compares two strings or two numbers.
func order(a, b any) int {
	if s, ok := a.(string); ok {
		t, _ := b.(string)
		return strings.Compare(s, t)
	}
	return cmp.Compare(number(a), number(b))
}

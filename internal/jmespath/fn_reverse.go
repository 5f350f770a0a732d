package jmespath

import "slices"

func init() {
	register(Function{
		Name: "reverse", Args: [][]Type{{Array, String}}, Returns: []Type{Any}, Builtin: true,
		Doc: "Reverses a list or a string.",
		Examples: []Example{
			{Expression: "reverse(`[1, 2, 3]`)", Result: `[3, 2, 1]`},
			{Expression: "reverse('añb')", Result: `"bña"`},
		},
		call: func(env *Env, args []any) (any, error) {
			if s, ok := args[0].(string); ok {
				runes := []rune(s)
				slices.Reverse(runes)
				return env.text(string(runes))
			}
			out := slices.Clone(args[0].([]any))
			slices.Reverse(out)
			return out, env.items(len(out))
		},
	})
}

package jmespath

import "strings"

func init() {
	register(Function{
		Name: "join", Args: one(String, ArrayString), Returns: []Type{String}, Builtin: true,
		Doc:      "Joins the strings of a list, with the first argument between them.",
		Examples: []Example{{Expression: "join(', ', `[\"a\", \"b\"]`)", Result: `"a, b"`}},
		call: func(env *Env, args []any) (any, error) {
			glue, list := args[0].(string), args[1].([]any)
			total := len(glue) * len(list)
			for _, item := range list {
				total += len(item.(string))
			}
			if err := env.bytes(total); err != nil {
				return nil, err
			}
			var b strings.Builder
			b.Grow(total)
			for i, item := range list {
				if i > 0 {
					b.WriteString(glue)
				}
				b.WriteString(item.(string))
			}
			return b.String(), nil
		},
	})
}

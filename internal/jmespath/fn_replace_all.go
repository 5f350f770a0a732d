package jmespath

import "strings"

func init() {
	register(Function{
		Name: "replace_all", Args: one(String, String, String), Returns: []Type{String},
		Doc:      "Replaces the second argument in a string by the third, everywhere.",
		Examples: []Example{{Expression: "replace_all('a.b.c', '.', '-')", Result: `"a-b-c"`}},
		call: func(env *Env, args []any) (any, error) {
			return replace(env, args[0].(string), args[1].(string), args[2].(string), -1)
		},
	})
}

// replace charges the size of the result before it creates it: repeated replacing can grow a text without end.
func replace(env *Env, s, old, new string, n int) (any, error) {
	count := strings.Count(s, old)
	if n >= 0 {
		count = min(count, n)
	}
	if err := env.step(count + len(s)/16); err != nil {
		return nil, err
	}
	if err := env.bytes(len(s) + count*len(new)); err != nil {
		return nil, err
	}
	return strings.Replace(s, old, new, n), nil
}

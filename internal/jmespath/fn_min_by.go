package jmespath

func init() {
	register(Function{
		Name: "min_by", Args: one(Array, Expression), Returns: []Type{Any}, Builtin: true,
		Doc:      "Returns the item of a list for which the expression gives the least number or string; null for an empty list.",
		Examples: []Example{{Expression: "min_by(@, &n).name", Input: `[{"name": "a", "n": 1}, {"name": "b", "n": 2}]`, Result: `"a"`}},
		call: func(env *Env, args []any) (any, error) {
			return bestBy(env, args[0].([]any), args[1].(*expref), -1)
		},
	})
}

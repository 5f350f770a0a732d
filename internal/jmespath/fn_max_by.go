package jmespath

func init() {
	register(Function{
		Name: "max_by", Args: one(Array, Expression), Returns: []Type{Any}, Builtin: true,
		Doc:      "Returns the item of a list for which the expression gives the greatest number or string; null for an empty list.",
		Examples: []Example{{Expression: "max_by(@, &n).name", Input: `[{"name": "a", "n": 1}, {"name": "b", "n": 2}]`, Result: `"b"`}},
		call: func(env *Env, args []any) (any, error) {
			return bestBy(env, args[0].([]any), args[1].(*expref), 1)
		},
	})
}

func bestBy(env *Env, list []any, by *expref, sign int) (any, error) {
	switch len(list) {
	case 0:
		return nil, nil
	case 1:
		return list[0], nil // there is nothing to compare it with
	}
	keys, err := sortKeys(env, list, by)
	if err != nil {
		return nil, err
	}
	found := 0
	for i := range list {
		if sign*order(keys[i], keys[found]) > 0 {
			found = i
		}
	}
	return list[found], nil
}

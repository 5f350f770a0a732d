package jmespath

import (
	"errors"
	"sort"
)

func init() {
	register(Function{
		Name: "sort_by", Args: one(Array, Expression), Returns: []Type{Array}, Builtin: true,
		Doc: "Sorts a list by the result of the expression for each item. The results must be all strings or all numbers.",
		Examples: []Example{
			{Expression: "sort_by(@, &n)[].name", Input: `[{"name": "b", "n": 2}, {"name": "a", "n": 1}]`, Result: `["a", "b"]`},
			{Expression: "sort_by(@, &n)", Input: `[{"n": 2}, {}]`, Error: `JMESPath function 'sort_by': the expression must give strings only or numbers only`},
		},
		call: func(env *Env, args []any) (any, error) {
			list := args[0].([]any)
			if len(list) < 2 {
				return list, nil
			}
			keys, err := sortKeys(env, list, args[1].(*expref))
			if err != nil {
				return nil, functionError("sort_by", "%w", err)
			}
			text := 0
			for _, k := range keys {
				s, _ := k.(string)
				text += len(s)
			}
			if err := env.sorting(len(list), text); err != nil {
				return nil, err
			}
			index := make([]int, len(list))
			for i := range index {
				index[i] = i
			}
			sort.SliceStable(index, func(i, j int) bool { return order(keys[index[i]], keys[index[j]]) < 0 })
			out := make([]any, len(list))
			for i, k := range index {
				out[i] = list[k]
			}
			return out, nil
		},
	})
}

var errMixedKeys = errors.New("the expression must give strings only or numbers only")

// sortKeys evaluates the expression on each item; the results must be all strings or all numbers.
func sortKeys(env *Env, list []any, by *expref) ([]any, error) {
	if err := env.items(3 * len(list)); err != nil {
		return nil, err
	}
	keys := make([]any, len(list))
	for i, item := range list {
		var err error
		if keys[i], err = by.on(env, item); err != nil {
			return nil, err
		}
	}
	if !all(keys, String) && !all(keys, Number) {
		return nil, errMixedKeys
	}
	return keys, nil
}

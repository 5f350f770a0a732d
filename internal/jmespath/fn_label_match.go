package jmespath

import "github.com/ephor-dev/ephor/internal/value"

func init() {
	register(Function{
		Name: "label_match", Args: one(Object, Object), Returns: []Type{Boolean},
		Doc:      "Whether every pair of the first object is also in the second, as the labels of a selector in those of an object.",
		Examples: []Example{{Expression: "label_match(`{\"app\": \"a\"}`, `{\"app\": \"a\", \"tier\": \"b\"}`)", Result: `true`}},
		call: func(_ *Env, args []any) (any, error) {
			labels := args[1].(map[string]any)
			for k, want := range args[0].(map[string]any) {
				if got, ok := labels[k]; !ok || !value.Equal(got, want) {
					return false, nil
				}
			}
			return true, nil
		},
	})
}

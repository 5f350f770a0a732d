package jmespath

func init() {
	register(Function{
		Name: "label_match", Args: one(Object, Object), Returns: []Type{Boolean},
		Doc:      "Whether every key and value of the first object is also in the second, as for a label selector and the labels of an object.",
		Examples: []Example{{Expression: "label_match(`{\"app\": \"a\"}`, `{\"app\": \"a\", \"tier\": \"b\"}`)", Result: `true`}},
		call: func(env *Env, args []any) (any, error) {
			labels := args[1].(map[string]any)
			for k, want := range args[0].(map[string]any) {
				got, ok := labels[k]
				if !ok {
					return false, nil
				}
				if equal, err := env.Meter.Equal(got, want); !equal || err != nil {
					return false, err
				}
			}
			return true, nil
		},
	})
}

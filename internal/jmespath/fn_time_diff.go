package jmespath

func init() {
	register(Function{
		Name: "time_diff", Args: one(String, String), Returns: []Type{String},
		Doc:      "Returns the duration from the first time to the second.",
		Examples: []Example{{Expression: "time_diff('2021-01-02T15:04:05Z', '2021-01-10T03:14:05Z')", Result: `"180h10m0s"`}},
		call: func(_ *Env, args []any) (any, error) {
			t, err := parseTimes(args...)
			if err != nil {
				return nil, err
			}
			return t[1].Sub(t[0]).String(), nil
		},
	})
}

package jmespath

func init() {
	register(Function{
		Name: "time_after", Args: one(String, String), Returns: []Type{Boolean},
		Doc:      "Whether the first time is later than the second.",
		Examples: []Example{{Expression: "time_after('2021-01-02T15:04:05Z', '2021-01-01T15:04:05Z')", Result: `true`}},
		call: func(_ *Env, args []any) (any, error) {
			t, err := parseTimes(args...)
			if err != nil {
				return nil, err
			}
			return t[0].After(t[1]), nil
		},
	})
}

package jmespath

func init() {
	register(Function{
		Name: "time_between", Args: one(String, String, String), Returns: []Type{Boolean},
		Doc: "Whether the first time is later than the second and earlier than the third.",
		Examples: []Example{
			{Expression: "time_between('2021-01-02T15:04:05Z', '2021-01-01T15:04:05Z', '2021-01-03T15:04:05Z')", Result: `true`},
		},
		call: func(_ *Env, args []any) (any, error) {
			t, err := parseTimes(args...)
			if err != nil {
				return nil, err
			}
			return t[0].After(t[1]) && t[0].Before(t[2]), nil
		},
	})
}

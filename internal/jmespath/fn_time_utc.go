package jmespath

import "time"

func init() {
	register(Function{
		Name: "time_utc", Args: one(String), Returns: []Type{String},
		Doc:      "Converts a time to UTC.",
		Examples: []Example{{Expression: "time_utc('2021-01-02T18:04:05-11:00')", Result: `"2021-01-03T05:04:05Z"`}},
		call: func(_ *Env, args []any) (any, error) {
			t, err := parseTimes(args...)
			if err != nil {
				return nil, err
			}
			return t[0].UTC().Format(time.RFC3339), nil
		},
	})
}

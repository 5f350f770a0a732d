package jmespath

import "time"

func init() {
	register(Function{
		Name: "time_now_utc", Returns: []Type{String},
		Doc:      "Returns the current time in UTC.",
		Examples: []Example{{Expression: "time_now_utc()", Result: `"2024-03-01T06:59:59Z"`}},
		call: func(env *Env, _ []any) (any, error) {
			t, err := env.now("time_now_utc")
			if err != nil {
				return nil, err
			}
			return t.UTC().Format(time.RFC3339), nil
		},
	})
}

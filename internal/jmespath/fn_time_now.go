package jmespath

import "time"

func init() {
	register(Function{
		Name: "time_now", Returns: []Type{String},
		Doc:      "Returns the current time in the time zone of the machine.",
		Examples: []Example{{Expression: "time_now()", Result: `"2024-02-29T23:59:59-07:00"`}},
		call: func(env *Env, _ []any) (any, error) {
			t, err := env.now("time_now")
			if err != nil {
				return nil, err
			}
			return t.Format(time.RFC3339), nil
		},
	})
}

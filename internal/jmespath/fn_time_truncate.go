package jmespath

import "time"

func init() {
	register(Function{
		Name: "time_truncate", Args: one(String, String), Returns: []Type{String},
		Doc: "Rounds a time down to a multiple of a duration since the year 1. A duration of zero or less does not change it.",
		Examples: []Example{
			{Expression: "time_truncate('2021-01-02T15:04:05Z', '2h')", Result: `"2021-01-02T14:00:00Z"`},
		},
		call: func(_ *Env, args []any) (any, error) {
			t, err := parseTimes(args[0])
			if err != nil {
				return nil, err
			}
			d, err := time.ParseDuration(args[1].(string))
			if err != nil {
				return nil, err
			}
			return t[0].Truncate(d).Format(time.RFC3339), nil
		},
	})
}

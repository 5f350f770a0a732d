package jmespath

import "time"

func init() {
	register(Function{
		Name: "time_add", Args: one(String, String), Returns: []Type{String},
		Doc: "Adds a duration, which may be negative, to a time (RFC 3339). The result keeps the time zone.",
		Examples: []Example{
			{Expression: "time_add('2021-01-02T15:04:05-07:00', '90m')", Result: `"2021-01-02T16:34:05-07:00"`},
			{Expression: "time_add('x', '1h')", Error: `parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"`},
		},
		call: func(env *Env, args []any) (any, error) {
			if err := env.step(len(args[1].(string)) / readPerStep); err != nil { // it is read slowly
				return nil, err
			}
			t, err := parseTimes(args[0])
			if err != nil {
				return nil, err
			}
			d, err := time.ParseDuration(args[1].(string))
			if err != nil {
				return nil, err
			}
			return t[0].Add(d).Format(time.RFC3339), nil
		},
	})
}

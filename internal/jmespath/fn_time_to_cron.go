package jmespath

import "fmt"

// formatSteps is the cost of writing five numbers.
const formatSteps = 10

func init() {
	register(Function{
		Name: "time_to_cron", Args: one(String), Returns: []Type{String},
		Doc:      "Returns a time as a cron expression (minute, hour, day, month, weekday), in the time zone of the argument.",
		Examples: []Example{{Expression: "time_to_cron('2022-04-11T03:14:05-07:00')", Result: `"14 3 11 4 1"`}},
		call: func(env *Env, args []any) (any, error) {
			if err := env.step(formatSteps); err != nil {
				return nil, err
			}
			t, err := parseTimes(args...)
			if err != nil {
				return nil, err
			}
			return fmt.Sprintf("%d %d %d %d %d", t[0].Minute(), t[0].Hour(), t[0].Day(), t[0].Month(), t[0].Weekday()), nil
		},
	})
}

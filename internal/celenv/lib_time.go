package celenv

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/world"
)

var libTime = &Library{
	Name:  "time",
	Doc:   "The current time, and conversions of times.",
	Kinds: everyPolicy,
	Functions: []Function{
		{
			Names:     []string{"time.now"},
			Overloads: []Overload{{Result: cel.TimestampType}},
			Doc:       "Returns the time of the evaluation.",
			Example:   `time.now() > timestamp('2020-01-01T00:00:00Z')`,
			Result:    `true`,
			call: func(e *Scope, _ []ref.Val) ref.Val {
				if e.world().Clock == nil {
					return e.unknown(fmt.Errorf("the time is %w", world.ErrUnavailable))
				}
				return types.Timestamp{Time: e.world().Clock.Now().UTC()}
			},
		},
		{
			Names:     []string{"time.truncate"},
			Overloads: []Overload{{Args: []*cel.Type{cel.TimestampType, cel.DurationType}, Result: cel.TimestampType}},
			Doc:       "Rounds a time down to a multiple of a duration since the zero time.",
			Example:   `time.truncate(timestamp('2024-01-02T03:04:05Z'), duration('1h'))`,
			Result:    `"2024-01-02T03:00:00Z"`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				t, d := args[0].(types.Timestamp), args[1].(types.Duration)
				return types.Timestamp{Time: t.Truncate(d.Duration)}
			},
		},
		{
			Names:     []string{"time.toCron"},
			Overloads: []Overload{{Args: []*cel.Type{cel.TimestampType}, Result: cel.StringType}},
			Doc:       "Returns a time as a cron expression: minute, hour, day, month and weekday.",
			Example:   `time.toCron(timestamp('2023-05-06T07:08:09Z'))`,
			Result:    `"8 7 6 5 6"`,
			call: func(_ *Scope, args []ref.Val) ref.Val {
				t := args[0].(types.Timestamp)
				return types.String(fmt.Sprintf("%d %d %d %d %d", t.Minute(), t.Hour(), t.Day(), t.Month(), t.Weekday()))
			},
		},
	},
}

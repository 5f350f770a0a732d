package jmespath

import (
	"strconv"
	"strings"
	"time"
)

func init() {
	register(Function{
		Name: "time_parse", Args: one(String, String), Returns: []Type{String},
		Doc: "Converts the second argument, a time in the given layout of Go's time package, to RFC 3339. If the layout has only digits, the second argument is a number of seconds since 1970, and the result is in UTC.",
		Examples: []Example{
			{Expression: "time_parse('Mon Jan 02 2006', 'Fri Feb 04 2022')", Result: `"2022-02-04T00:00:00Z"`},
			{Expression: "time_parse('1', '1643932800')", Result: `"2022-02-04T00:00:00Z"`},
		},
		call: func(_ *Env, args []any) (any, error) {
			layout, s := args[0].(string), args[1].(string)
			if layout != "" && strings.Trim(layout, "0123456789") == "" {
				seconds, err := strconv.ParseInt(s, 10, 64)
				if err != nil {
					return nil, err
				}
				return time.Unix(seconds, 0).UTC().Format(time.RFC3339), nil
			}
			t, err := time.Parse(layout, s)
			if err != nil {
				return nil, err
			}
			return t.Format(time.RFC3339), nil
		},
	})
}

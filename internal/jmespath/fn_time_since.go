package jmespath

import "time"

func init() {
	register(Function{
		Name: "time_since", Args: one(String, String, String), Returns: []Type{String},
		Doc: "Returns the duration from the second argument to the third, both times in the layout of the first. An empty layout means RFC 3339, an empty third argument the current time.",
		Examples: []Example{
			{Expression: "time_since('', '2021-01-02T15:04:05Z', '2021-01-10T03:14:05Z')", Result: `"180h10m0s"`},
			{Expression: "time_since('2006-01-02', '2024-02-29', '')", Result: `"30h59m59s"`},
		},
		call: func(env *Env, args []any) (any, error) {
			layout := args[0].(string)
			if layout == "" {
				layout = time.RFC3339
			}
			from, err := time.Parse(layout, args[1].(string))
			if err != nil {
				return nil, err
			}
			var to time.Time
			if s := args[2].(string); s == "" {
				to, err = env.now("time_since")
			} else {
				to, err = time.Parse(layout, s)
			}
			if err != nil {
				return nil, err
			}
			return to.Sub(from).String(), nil
		},
	})
}

package condition

var durationGreaterThanOrEquals = &Operator{
	Name:       "DurationGreaterThanOrEquals",
	Deprecated: true,
	Doc:        "The key is greater than or equals the value, both durations or numbers of seconds. GreaterThanOrEquals does the same.",
	Examples: []Example{
		{"2h", "1h", true},
		{"60m", "1h", true},
		{"30s", 60.0, false},
		{3600.0, "1h", true},
		{0.5, "1s", false},
		{"0", "0", true},
		{"60", "1h", false},
		{"1Gi", "1h", false},
		{[]any{"2h"}, "1h", false},
		{nil, "1h", false},
	},
	prepare: order{greater: true, equal: true}.prepareDuration,
}

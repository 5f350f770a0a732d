package condition

var durationGreaterThan = &Operator{
	Name:       "DurationGreaterThan",
	Deprecated: true,
	Doc:        "The key is greater than the value, both durations or numbers of seconds. GreaterThan does the same.",
	Examples: []Example{
		{"2h", "1h", true},
		{"60m", "1h", false},
		{"30s", 60.0, false},
		{3600.0, "1h", false},
		{0.5, "1s", false},
		{"0", "0", false},
		{"60", "1h", false},
		{"1Gi", "1h", false},
		{[]any{"2h"}, "1h", false},
		{nil, "1h", false},
	},
	prepare: order{greater: true}.prepareDuration,
}

package condition

var durationLessThanOrEquals = &Operator{
	Name:       "DurationLessThanOrEquals",
	Deprecated: true,
	Doc:        "The key is less than or equals the value, both durations or numbers of seconds. LessThanOrEquals does the same.",
	Examples: []Example{
		{"2h", "1h", false},
		{"60m", "1h", true},
		{"30s", 60.0, true},
		{3600.0, "1h", true},
		{0.5, "1s", true},
		{"0", "0", true},
		{"60", "1h", false},
		{"1Gi", "1h", false},
		{[]any{"2h"}, "1h", false},
		{nil, "1h", false},
	},
	prepare: order{less: true, equal: true}.prepareDuration,
}

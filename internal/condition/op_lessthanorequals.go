package condition

var lessThanOrEquals = &Operator{
	Name: "LessThanOrEquals",
	Doc:  "The key is less than or equals the value. Both are read as durations, quantities, numbers or semantic versions; the first type that fits both applies.",
	Examples: []Example{
		{10.0, 5.0, false},
		{5.0, 5.0, true},
		{"5", 10.0, true},
		{5.0, "10", true},
		{"1h", "59m", false},
		{"1h", 60.0, false},
		{"3600", "59m", false}, // a numeric text counts as seconds
		{3600.0, "1h", true},
		{"1Gi", "1024Mi", true},
		{"100m", "1", true},
		{"1.10.0", "1.9.0", false},
		{"1.2", "1.10", false}, // quantities, not versions
		{"v1.10.0", "v1.9.0", false},
		{"1Gi", 500.0, false},
		{[]any{10.0}, 5.0, false},
		{"a", "b", false},
		{nil, 1.0, false},
		{true, 0.0, false},
		{10.0, []any{5.0}, false},
	},
	prepare: order{less: true, equal: true}.prepare,
}

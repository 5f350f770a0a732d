package condition

var allNotIn = &Operator{
	Name: "AllNotIn",
	Doc:  "No element of the key is in the value. The value has the same forms as for AnyIn.",
	Examples: []Example{
		{[]any{"a", "b"}, []any{"c", "d"}, true},
		{[]any{"a", "b"}, []any{"b"}, false},
		{"default", []any{"kyverno", "def*"}, false},
		{"abc", "true", false}, // valid JSON, but not a list
		{"abc", "truth", true},
		{[]any{6.0, 7.0}, "1-5", true},
		{[]any{"a"}, "1-3", true},
		{5.0, "2!-4", true}, // a text with !- is a range in patterns only
		{"*", "default", true},
		{[]any{}, []any{"a"}, true},
		{[]any{"a"}, []any{}, true},
		{[]any{6.0}, 5.0, false},
		{"a", true, false},
	},
	prepare: quantifier{all: true, not: true}.prepare,
}

package condition

var allIn = &Operator{
	Name: "AllIn",
	Doc:  "Every element of the key is in the value. The value has the same forms as for AnyIn.",
	Examples: []Example{
		{[]any{"a", "b"}, []any{"b", "a", "c"}, true},
		{[]any{"a", "d"}, []any{"a", "b"}, false},
		{[]any{"nginx", "node"}, "n*", true},
		{[]any{1.0, 5.0}, "1-5", true},
		{[]any{1.0, 6.0}, "1-5", false},
		{[]any{5.0, 6.0}, "2!-4", false}, // a text with !- is a range in patterns only
		{[]any{}, []any{"a"}, true},
		{[]any{}, true, false},
		{"a", []any{}, false},
		{1.0, []any{1.0, 80.0}, true},
		{[]any{5.0}, 5.0, false},
		{map[string]any{}, []any{"a"}, false},
	},
	prepare: quantifier{all: true, not: false}.prepare,
}

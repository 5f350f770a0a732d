package condition

var anyNotIn = &Operator{
	Name: "AnyNotIn",
	Doc:  "At least one element of the key is not in the value. The value has the same forms as for AnyIn.",
	Examples: []Example{
		{[]any{"a", "b"}, []any{"b"}, true},
		{[]any{"a"}, []any{"a", "b"}, false},
		{"c", []any{"a", "b"}, true},
		{"abc", "a*", false},
		{[]any{"nginx"}, "1.5", false}, // valid JSON, but not a list
		{[]any{"a-b"}, "2!-4", true},
		{1.0, "2!-4", true},        // a text with !- is a range in patterns only
		{[]any{"a"}, "1-3", false}, // a word is neither in a range nor outside it
		{"a", "1-3", true},
		{"*", "nginx", true},
		{[]any{1.0, 6.0}, "1-5", true},
		{[]any{5.0, 6.0}, 5.0, true},
		{[]any{}, []any{"a"}, false},
		{"a", []any{}, true},
		{"a", 5.0, false},
		{nil, []any{"a"}, false},
	},
	prepare: quantifier{all: false, not: true}.prepare,
}

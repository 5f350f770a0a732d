package condition

var anyIn = &Operator{
	Name: "AnyIn",
	Doc:  "At least one element of the key is in the value. The value is a list of strings with wildcards, one such string, a string with a JSON list, or a range such as 1-10 or 1Gi-2Gi.",
	Examples: []Example{
		{"nginx", []any{"ng*", "apache"}, true},
		{[]any{"a", "b"}, []any{"b", "c"}, true},
		{[]any{"a", "b"}, []any{"c"}, false},
		{"n*", []any{"nginx"}, true}, // wildcards apply in both directions
		{"b", `["a","b"]`, true},
		{1000000.0, []any{"1e+06"}, true}, // how the number prints
		{5.0, "5", true},
		{"*", "nginx", false}, // for a text, only the wildcards of the value apply
		{[]any{"*"}, "nginx", true},
		{[]any{"5", "5"}, "5", false}, // valid JSON, but not a list
		{[]any{"5"}, "5", true},       // like a list of this one text
		{5.0, "1-10", true},
		{"2Gi", "1Gi-4Gi", true},
		{"2Gi", "100Mi!-1Gi", false}, // a text with !- is a range in patterns only
		{5.0, "2!-4", false},
		{[]any{5.0, 6.0}, "2!-4", false},
		{"2!-4", "2!-4", true},
		{[]any{}, []any{"a"}, false},
		{"a", []any{}, false},
		{true, []any{false, true}, true},
		{5.0, 5.0, false}, // a number is a valid value for list keys only
		{[]any{5.0, 6.0}, 5.0, true},
		{nil, []any{"a"}, false},
	},
	prepare: quantifier{all: false, not: false}.prepare,
}

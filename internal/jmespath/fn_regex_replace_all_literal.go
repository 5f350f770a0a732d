package jmespath

func init() {
	register(withRegex(Function{
		Name: "regex_replace_all_literal", Args: [][]Type{{String}, {String, Number}, {String, Number}}, Returns: []Type{String},
		Doc:      "Replaces every match of a regular expression (RE2) in the second argument by the third, taken literally.",
		Examples: []Example{{Expression: "regex_replace_all_literal('[0-9]', 'a1 b2', '$1')", Result: `"a$1 b$1"`}},
	}, func(env *Env, re *pattern, args []any) (any, error) {
		s, replacement := text(args[1]), text(args[2])
		return replaceRegex(env, re, s, replacement, 0, func(dst []byte, _ []int) []byte { return append(dst, replacement...) })
	}, func(err error) error { return functionError("regex_replace_all_literal", "%w", err) }))
}

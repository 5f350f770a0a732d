package jmespath

func init() {
	register(withRegex(Function{
		Name: "regex_match", Args: [][]Type{{String}, {String, Number}}, Returns: []Type{Boolean},
		Doc: "Whether a regular expression (RE2) matches a part of a string or of a number written as text; use ^ and $ to match the whole text.",
		Examples: []Example{
			{Expression: "regex_match('^[a-z]+$', 'abc')", Result: `true`},
			{Expression: "regex_match('^1', `12`)", Result: `true`},
			{Expression: "regex_match('(', 'abc')", Error: "error parsing regexp: missing closing ): `(`"},
		},
	}, func(env *Env, re *pattern, args []any) (any, error) {
		s := text(args[1])
		if err := env.steps(re.size.Search(len(s), false)); err != nil {
			return nil, err
		}
		return re.MatchString(s), nil
	}, func(err error) error { return err }))
}

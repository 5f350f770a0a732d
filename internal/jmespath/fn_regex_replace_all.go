package jmespath

import "strings"

func init() {
	register(withRegex(Function{
		Name: "regex_replace_all", Args: [][]Type{{String}, {String, Number}, {String, Number}}, Returns: []Type{String},
		Doc: "Replaces every match of a regular expression (RE2) in the second argument by the third, in which $1 and ${name} stand for the text that a group matched.",
		Examples: []Example{
			{Expression: "regex_replace_all('([a-z])([0-9])', 'a1 b2', '$2$1')", Result: `"1a 2b"`},
			{Expression: "regex_replace_all('^(.*)/', 'docker.io/nginx', '${1}.mirror/')", Result: `"docker.io.mirror/nginx"`},
		},
	}, func(env *Env, re *pattern, args []any) (any, error) {
		s, template := text(args[1]), text(args[2])
		return replaceRegex(env, re, s, template, strings.Count(template, "$"), func(dst []byte, match []int) []byte { return re.ExpandString(dst, template, s, match) })
	}, func(err error) error { return functionError("regex_replace_all", "%w", err) }))
}

package lint

import (
	"strings"

	"ephor.invalid/ephor/internal/compilecost"
	"ephor.invalid/ephor/internal/jmespath"
)

var regularExpression = &Check{
	Name: "regular-expression",
	Doc: "A regular expression that is written out and cannot be compiled: each evaluation is an error. The syntax is RE2, which has no " +
		"backreferences and no assertions such as `(?=…)`. And one in which a backslash is doubled before a character with a meaning of its own, as in `\\\\.`: " +
		"it matches a backslash. Only YAML in double quotes makes one backslash of two; a variable in patchesJson6902 is read as it stands.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: name
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      deny:
        conditions:
          any:
          - key: "{{ regex_match('[a-z', request.object.metadata.name) }}"
            operator: Equals
            value: false
`,
	slip:  true,
	cause: true,
	policy: func(in *input) {
		c := calls{in: in, each: func(t jmespath.Tree, name, path string) {
			if !strings.HasPrefix(name, "regex_") || len(t.Children) == 0 {
				return
			}
			text, ok := t.Children[0].Literal()
			if !ok {
				return
			}
			if _, err := compilecost.Regex(text); err != nil {
				in.warn(path, "correct it: the syntax is that of RE2 (https://github.com/google/re2/wiki/Syntax)", "%s: %v: evaluating it is an error", name, err)
			} else if found := doubled(text); found != "" {
				in.warn(path, hintDoubled(found, path), "%s: %s matches a backslash and what follows it", name, found)
			}
		}}
		for i, r := range in.rules {
			c.look(r, rulePath(i), true)
		}
	},
}

// doubled returns the first backslash that is doubled before a character which has a meaning after one backslash, such as `\\.`; empty if there
// is none. In a character class it makes little difference.
func doubled(expression string) string {
	class := false
	for i := 0; i+1 < len(expression); i++ {
		switch c := expression[i]; {
		case c == '\\' && expression[i+1] == '\\' && !class && i+2 < len(expression) && strings.IndexByte(".dDwWsSbB", expression[i+2]) >= 0:
			return expression[i : i+3]
		case c == '\\':
			i++
		case c == '[':
			class = true
		case c == ']':
			class = false
		}
	}
	return ""
}

// hintDoubled says how to write one backslash at a path.
func hintDoubled(found, path string) string {
	hint := "write " + found[1:]
	if strings.Contains(path, ".patchesJson6902") {
		return hint + ": in patchesJson6902 a variable is read as it stands, also within double quotes"
	}
	return hint + ", or put the text in double quotes, in which YAML makes one backslash of two"
}

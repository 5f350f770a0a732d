package lint

import (
	"strings"

	"github.com/ephor-dev/ephor/internal/compilecost"
	"github.com/ephor-dev/ephor/internal/jmespath"
)

var regularExpression = &Check{
	Name: "regular-expression",
	Doc: "A regular expression that is written out and cannot be compiled: each evaluation is an error. The syntax is RE2, which has no " +
		"backreferences and no assertions such as `(?=…)`.",
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
	slip: true,
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
			}
		}}
		for i, r := range in.rules {
			c.look(r, rulePath(i), true)
		}
	},
}

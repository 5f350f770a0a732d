package lint

import (
	"strings"

	"ephor.invalid/ephor/internal/value"
)

var unclosedVariable = &Check{
	Name: "unclosed-variable",
	Doc: "A text with `{{` and without the `}}` that belongs to it is plain text: nothing is evaluated, and the braces are compared with the " +
		"resource, or written into it. Close the variable; a text that means the braces themselves says `\\{{`.",
	Example: `apiVersion: kyverno.io/v1
kind: ClusterPolicy
metadata:
  name: example
spec:
  rules:
  - name: team
    match:
      any:
      - resources:
          kinds: [Pod]
    validate:
      message: "{{ request.object.metadata.name has no team"
      pattern:
        metadata:
          labels:
            team: "?*"
`,
	slip: true,
	policy: func(in *input) {
		for i, r := range in.rules {
			in.unclosed(r, rulePath(i))
		}
	},
}

// unclosed reports whether a variable in the text begins and does not end.
func unclosed(text string) bool {
	i := strings.LastIndex(text, "{{")
	return i >= 0 && !strings.HasSuffix(text[:i], "\\") && !strings.Contains(text[i:], "}}") ||
		strings.Count(text, "{{")-strings.Count(text, "\\{{") > strings.Count(text, "}}")
}

func (in *input) unclosed(v any, path string) {
	if text, ok := v.(string); ok && unclosed(text) {
		in.warn(path, "write }} behind the variable, or \\{{ for the braces themselves", "the variable in %q is not closed, so that it stays text", value.Clip(text, 80))
	}
	for at, e := range value.Children(v, path) {
		in.unclosed(e, at)
	}
}

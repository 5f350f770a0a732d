package jmespath

import "ephor.invalid/ephor/internal/value"

// maxYAML bounds the input of the YAML parser, with its aliases replaced. A ConfigMap has at most 1 MiB.
const maxYAML = 1 << 20

// yamlSteps is the parser's cost for one byte, which is slow, and yamlBytes what it creates.
const (
	yamlSteps = 16
	yamlBytes = 28
)

func init() {
	register(Function{
		Name: "parse_yaml", Args: one(String), Returns: []Type{Any},
		Doc: "Parses YAML, with the booleans of YAML 1.1 (yes, no, on, off, y, n).",
		Examples: []Example{
			{Expression: "parse_yaml('a: [1, yes]')", Result: `{"a": [1, true]}`},
			{Expression: "parse_yaml('{')", Error: `yaml: line 1: did not find expected node content`},
		},
		call: func(env *Env, args []any) (any, error) {
			s := args[0].(string)
			return value.DecodeYAML(s, func(bytes int) error {
				switch {
				case len(s) > maxYAML:
					return functionError("parse_yaml", "%w: %d bytes", ErrTooLarge, bytes)
				case bytes > maxYAML:
					return functionError("parse_yaml", "%w: more than %d bytes, with its aliases replaced", ErrTooLarge, maxYAML)
				}
				if err := env.step(yamlSteps * (32 + bytes)); err != nil {
					return err
				}
				return env.bytes(yamlBytes * bytes)
			})
		},
	})
}

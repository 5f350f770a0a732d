package jmespath

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/value"
)

// maxYAML bounds the input of the YAML parser. A ConfigMap has at most 1 MiB.
const maxYAML = 1 << 20

// yamlSteps is the parser's cost for one byte: it is slow.
const yamlSteps = 16

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
			if len(s) > maxYAML {
				return nil, functionError("parse_yaml", "%w: %d bytes", ErrTooLarge, len(s))
			}
			if err := env.step(yamlSteps * len(s)); err != nil {
				return nil, err
			}
			if err := env.bytes(24 * len(s)); err != nil {
				return nil, err
			}
			raw, err := yaml.YAMLToJSON([]byte(s))
			if err != nil {
				return nil, err
			}
			if err := env.bytes(4 * len(raw)); err != nil {
				return nil, fmt.Errorf("parse_yaml: %w", err)
			}
			return value.DecodeJSONFloat(raw)
		},
	})
}

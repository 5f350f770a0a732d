package celenv

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"sigs.k8s.io/yaml"

	"github.com/ephor-dev/ephor/internal/value"
)

var libYAML = &Library{
	Name:  "yaml",
	Doc:   "Parsing of YAML, with the booleans of YAML 1.1 (yes, no, on, off, y, n). Numbers become doubles.",
	Kinds: everyPolicy,
	Functions: []Function{{
		Names:     []string{"yaml.parse"},
		Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.DynType}},
		Doc:       "Parses YAML.",
		Example:   `yaml.parse('a: [1, yes]').a[1]`,
		Result:    `true`,
		cost:      func(args []ref.Val) int { return 1 + 2*len(text(args[0])) }, // the parser is slow
		call: func(e *Evaluation, args []ref.Val) ref.Val {
			raw, err := yaml.YAMLToJSON([]byte(text(args[0])))
			if err != nil {
				return types.WrapErr(fmt.Errorf("error converting YAML to JSON: %w", err))
			}
			v, err := value.DecodeJSONFloat(raw)
			if err != nil {
				return types.WrapErr(err)
			}
			return e.native(v)
		},
	}},
}

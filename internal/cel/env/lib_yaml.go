package env

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/value"
)

// yamlSteps are those of a byte of YAML: the parser is slow.
const yamlSteps = 20

// nothing is the cost of a function that charges for its work itself.
func nothing([]ref.Val) int { return price.NodeSteps }

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
		cost:      nothing, // charged while the text is read
		call: func(e *Scope, args []ref.Val) ref.Val {
			v, err := value.DecodeYAML(values.Text(args[0]), func(bytes int) error { return e.Afford(int64(yamlSteps * (32 + bytes))) })
			switch {
			case e.Ended():
				return types.WrapErr(price.ErrOutOfBudget)
			case err != nil:
				return types.WrapErr(fmt.Errorf("error converting YAML to JSON: %w", err))
			}
			return e.native(v)
		},
	}},
}

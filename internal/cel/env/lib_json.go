package env

import (
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/value"
)

// maxDocument is the maximum size of texts that are decoded as JSON or YAML, in bytes.
const maxDocument = 1 << 20

var libJSON = &Library{
	Name:  "json",
	Doc:   "Parsing and encoding of JSON. Parsed numbers are doubles.",
	Kinds: everyPolicy,
	Functions: []Function{
		{
			Names:     []string{"json.unmarshal"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.DynType}},
			Doc:       "Parses JSON.",
			Example:   `json.unmarshal('{"a": [1, 2]}').a`,
			Result:    `[1,2]`,
			cost:      unmarshalCost,
			call:      unmarshal("json.unmarshal"),
		},
		{
			Names:     []string{"json.marshal"},
			Overloads: []Overload{{Args: []*cel.Type{cel.DynType}, Result: cel.StringType}},
			Doc:       "Encodes a value as JSON. Map keys must be strings. A duration becomes a number of nanoseconds, an empty optional null.",
			Example:   `json.marshal({'a': [1, 2]})`,
			Result:    `"{\"a\":[1,2]}"`,
			cost:      costOfValue,
			call: func(e *Scope, args []ref.Val) ref.Val {
				v, err := values.Decode(args[0], values.MaxNesting)
				if err != nil {
					return types.WrapErr(err)
				}
				out := escapeHTML.Replace(value.JSON(v))
				e.Charge(price.Steps(len(out), price.ReadBytes))
				return types.String(out)
			},
		},
	},
}

// escapeHTML escapes HTML characters as encoding/json does.
var escapeHTML = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`)

// costOfValue returns the cost of a call: four nodes for each value in the first argument.
func costOfValue(args []ref.Val) int {
	return 4 * price.NodeSteps * (*price.Sizes)(nil).Of(args[0])
}

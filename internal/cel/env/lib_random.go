package env

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/textgen"
	"ephor.invalid/ephor/internal/world"
)

// defaultPattern is the pattern that random uses if it is called without one.
const defaultPattern = "[0-9a-z]{8}"

var libRandom = &Library{
	Name:  "random",
	Doc:   "Random strings.",
	Kinds: everyPolicy,
	Functions: []Function{{
		Names:     []string{"random.random", "random"},
		Overloads: []Overload{{Result: cel.StringType}, {Args: []*cel.Type{cel.StringType}, Result: cel.StringType}},
		Doc:       "Returns a random string that matches a regular expression; without an argument, eight digits and lower-case letters. * and + repeat at most 10 times.",
		Example:   "random.random('[a-f]{4}')",
		Result:    `"dddd"`,
		call: func(e *Scope, args []ref.Val) ref.Val {
			if e.world().Rand == nil {
				return e.unknown(fmt.Errorf("random numbers are %w", world.ErrUnavailable))
			}
			pattern := defaultPattern
			if len(args) > 0 {
				pattern = values.Text(args[0])
			}
			out, err := textgen.Text(pattern, e.world().Rand, func(n int) error { return e.Afford(int64(n)) })
			if errors.Is(err, price.ErrBudget) {
				return e.unknown(err)
			}
			if err != nil {
				return types.WrapErr(err)
			}
			return types.String(out)
		},
	}},
}

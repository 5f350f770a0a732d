package celenv

import (
	"math"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var libMath = &Library{
	Name:  "math",
	Doc:   "Rounding to a number of decimal places, in addition to the math functions of the extensions.",
	Kinds: everyPolicy,
	Functions: []Function{{
		Names:     []string{"math.round"},
		Overloads: []Overload{{Args: []*cel.Type{cel.DoubleType, cel.IntType}, Result: cel.DoubleType}},
		Doc:       "Rounds a number to the given number of decimal places, halves away from zero. A negative number of places rounds to tens, hundreds and so on.",
		Example:   "math.round(2.345, 2)",
		Result:    `2.35`,
		call: func(_ *Scope, args []ref.Val) ref.Val {
			x, places := float64(args[0].(types.Double)), float64(args[1].(types.Int))
			scale := math.Pow(10, places)
			return types.Double(math.Round(x*scale) / scale)
		},
	}},
}

package price

import (
	"github.com/google/cel-go/common/types/ref"
)

// The library charges for a call after it was made. Therefore functions whose result or work is much larger than their
// arguments are checked before the call.
const (
	// MaxText is the maximum length of a text that a function may create, in bytes.
	MaxText = 4 << 20
	// MaxCompared is the maximum number of comparisons in one call.
	MaxCompared = 20_000_000
	// costPerValue is the cost of comparing one value of a large list or map.
	costPerValue = 10
)

// Limit reports whether a call would create or do too much. It is called with the evaluated arguments.
type Limit func(args []ref.Val, s *Sizes) (tooMuch bool)

// Crossed reports whether comparing each part of one argument with each part of the other is too much.
func Crossed(args []ref.Val, _ *Sizes) bool {
	return len(args) > 1 && Size(args[0])*Size(args[1]) > MaxCompared
}

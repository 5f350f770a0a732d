package celenv

import (
	"github.com/google/cel-go/common/types/ref"
)

// The library charges for a call after it was made. Therefore functions whose result or work is much larger than their
// arguments are checked before the call.
const (
	// maxText is the maximum length of a text that a function may create, in bytes.
	maxText = 4 << 20
	// maxSteps is the maximum number of comparisons, or of steps of a regular expression, in one call.
	maxSteps = 20_000_000
	// costPerValue is the cost of comparing one value of a large list or map.
	costPerValue = 10
)

// limit reports whether a call would create or do too much. It is called with the evaluated arguments.
type limit func(args []ref.Val, s *sizes) (tooMuch bool)

// crossed reports whether comparing each part of one argument with each part of the other takes too many steps.
func crossed(args []ref.Val, _ *sizes) bool {
	return len(args) > 1 && size(args[0])*size(args[1]) > maxSteps
}

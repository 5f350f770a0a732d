package celenv

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var libLists = &Library{
	Name: "lists",
	Doc:  "Functions of lists: ranges, distinct elements, the index of an element, whether a list includes an element.",
	limits: map[string]limit{
		"lists.range": ranged,
		"distinct":    squared,
		"indexOf":     crossed,
		"lastIndexOf": crossed,
		"includes":    crossed,
	},
}

// ranged reports whether a list with this many numbers would be too large.
func ranged(args []ref.Val, _ *sizes) bool {
	n, ok := args[0].(types.Int)
	return ok && n > maxValues
}

// squared reports whether comparing all elements with each other takes too many steps.
func squared(args []ref.Val, _ *sizes) bool {
	n := size(args[0])
	return n*n > maxSteps
}

package env

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
)

var libLists = &Library{
	Name: "lists",
	Doc:  "Functions of lists: ranges, distinct elements, the index of an element, whether a list includes an element.",
	limits: map[string]price.Limit{
		"lists.range": ranged,
		"distinct":    squared,
		"indexOf":     price.Crossed,
		"lastIndexOf": price.Crossed,
		"includes":    price.Crossed,
	},
}

// ranged reports whether a list with this many numbers would be too large.
func ranged(args []ref.Val, _ *price.Sizes) bool {
	n, ok := args[0].(types.Int)
	return ok && n > price.MaxValues
}

// squared reports whether comparing all elements with each other is too much.
func squared(args []ref.Val, _ *price.Sizes) bool {
	n := price.Size(args[0])
	return n*n > price.MaxCompared
}

package env

import (
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/price"
)

var libStrings = &Library{
	Name: "strings",
	Doc:  "Functions of strings: replacing, joining, formatting, searching.",
	limits: map[string]price.Limit{
		"replace":     replaced,
		"join":        joined,
		"format":      formatted,
		"split":       divided,
		"indexOf":     price.Crossed,
		"lastIndexOf": price.Crossed,
	},
}

func replaced(args []ref.Val, _ *price.Sizes) bool {
	if len(args) < 3 {
		return false
	}
	text, ok1 := args[0].(types.String)
	from, ok2 := args[1].(types.String)
	to, ok3 := args[2].(types.String)
	return ok1 && ok2 && ok3 && len(text)+strings.Count(string(text), string(from))*(len(to)-len(from)) > price.MaxText
}

// joined reports whether joining a list creates too long a text. It counts the texts of the list, each as often as it occurs, and the
// separators.
func joined(args []ref.Val, s *price.Sizes) bool {
	return len(args) > 1 && price.Size(args[0])*price.Size(args[1]) > price.MaxText || len(args) > 0 && s.Of(args[0]) > price.MaxValues
}

// formatted reports whether formatting creates too long a text. It counts all parts of the values in the list, as often as the format may
// use them, and the digits of numbers.
func formatted(args []ref.Val, s *price.Sizes) bool {
	if len(args) < 2 {
		return false
	}
	format, _ := args[0].(types.String)
	return s.Of(args[1]) > price.MaxValues || price.Digits(string(format)) > price.MaxText
}

// divided reports whether splitting a text creates too many parts.
func divided(args []ref.Val, _ *price.Sizes) bool {
	if len(args) < 2 || price.Size(args[0]) < price.MaxValues {
		return false
	}
	text, ok1 := args[0].(types.String)
	by, ok2 := args[1].(types.String)
	if !ok1 || !ok2 {
		return false
	}
	parts := strings.Count(string(text), string(by)) + 1
	if len(args) > 2 {
		if limit, ok := args[2].(types.Int); ok && limit >= 0 {
			parts = min(parts, int(limit))
		}
	}
	return parts > price.MaxValues
}

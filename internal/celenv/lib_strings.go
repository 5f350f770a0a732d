package celenv

import (
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var libStrings = &Library{
	Name: "strings",
	Doc:  "Functions of strings: replacing, joining, formatting, searching.",
	limits: map[string]limit{
		"replace":     replaced,
		"join":        joined,
		"format":      formatted,
		"split":       divided,
		"indexOf":     crossed,
		"lastIndexOf": crossed,
	},
}

func replaced(args []ref.Val, _ *sizes) bool {
	if len(args) < 3 {
		return false
	}
	text, ok1 := args[0].(types.String)
	from, ok2 := args[1].(types.String)
	to, ok3 := args[2].(types.String)
	return ok1 && ok2 && ok3 && len(text)+strings.Count(string(text), string(from))*(len(to)-len(from)) > maxText
}

// joined reports whether joining a list creates too long a text. It counts the texts of the list, each as often as it occurs, and the
// separators.
func joined(args []ref.Val, s *sizes) bool {
	return len(args) > 1 && size(args[0])*size(args[1]) > maxText || len(args) > 0 && s.of(args[0]) > maxValues
}

// formatted reports whether formatting creates too long a text. It counts all parts of the values in the list, as often as the format may
// use them, and the digits of numbers.
func formatted(args []ref.Val, s *sizes) bool {
	if len(args) < 2 {
		return false
	}
	format, _ := args[0].(types.String)
	return s.of(args[1]) > maxValues || digits(string(format)) > maxText
}

// divided reports whether splitting a text creates too many parts.
func divided(args []ref.Val, _ *sizes) bool {
	if len(args) < 2 || size(args[0]) < maxValues {
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
	return parts > maxValues
}

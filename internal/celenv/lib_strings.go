package celenv

import (
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

var libStrings = &Library{
	Name: "strings",
	Doc:  "Functions of texts: replacing, joining, formatting, searching.",
	prices: map[string]price{
		"replace":     replaced,
		"join":        joined,
		"format":      formatted,
		"indexOf":     crossed,
		"lastIndexOf": crossed,
	},
}

func replaced(args []ref.Val, _ interpreter.Activation) bool {
	if len(args) < 3 {
		return false
	}
	text, ok1 := args[0].(types.String)
	from, ok2 := args[1].(types.String)
	to, ok3 := args[2].(types.String)
	return ok1 && ok2 && ok3 && len(text)+strings.Count(string(text), string(from))*(len(to)-len(from)) > maxText
}

func joined(args []ref.Val, _ interpreter.Activation) bool {
	return len(args) > 1 && size(args[0])*size(args[1]) > maxText
}

func formatted(args []ref.Val, vars interpreter.Activation) bool {
	return len(args) > 1 && valuesIn(args[1], vars) > maxValues
}

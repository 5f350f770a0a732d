package celenv

import (
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// basePrices are the prices of functions that every environment has, and no Library of ours.
var basePrices = map[string]price{"quantity": measured, "isQuantity": measured}

// A quantity in a text has at most so many bytes, and its decimal exponent so many digits before or behind the point: adding and comparing
// write all of them out.
const (
	maxQuantity = 1 << 10
	maxExponent = 100
)

// measured is the price of reading a quantity: one with a large exponent would take a lifetime, or all memory, as soon as it is added or compared.
func measured(args []ref.Val, _ interpreter.Activation) bool {
	if len(args) == 0 {
		return false
	}
	text, ok := args[0].(types.String)
	if !ok {
		return false
	}
	if len(text) > maxQuantity {
		return true
	}
	at := strings.IndexAny(string(text), "eE")
	if at < 0 || at+1 == len(text) { // E alone is a suffix
		return false
	}
	exponent, err := strconv.Atoi(string(text[at+1:]))
	if err != nil {
		// The function itself says what is wrong, unless the number is too large to be read.
		return strings.Trim(string(text[at+1:]), "+-0123456789") == ""
	}
	return exponent > maxExponent || exponent < -maxExponent
}

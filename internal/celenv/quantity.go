package celenv

import (
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// baseLimits holds the limits of functions that every environment has and that belong to none of our Libraries.
var baseLimits = map[string]limit{"quantity": measured, "isQuantity": measured}

// Limits for a quantity in a text: its length in bytes, and its decimal exponent, since adding and comparing write all digits out.
const (
	maxQuantity = 1 << 10
	maxExponent = 100
)

// measured reports whether reading a quantity is too expensive. Adding or comparing a quantity with a large exponent would take a lifetime,
// or all memory.
func measured(args []ref.Val, _ *sizes) bool {
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
	if at < 0 || !strings.ContainsAny(string(text[at+1:]), "0123456789") || strings.Trim(string(text[:at]), "+-.0123456789") != "" {
		return false // E without digits is a suffix, and a word with an E in it is no quantity
	}
	exponent, err := strconv.Atoi(string(text[at+1:]))
	if err != nil {
		// The function itself reports the mistake, unless the number is too large to be parsed.
		return strings.Trim(string(text[at+1:]), "+-0123456789") == ""
	}
	return exponent > maxExponent || exponent < -maxExponent
}

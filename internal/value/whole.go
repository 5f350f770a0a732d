package value

import "math"

// WholeNumbers returns a copy of v in which floats without a fraction become integers. The command line decodes all numbers in objects
// as floats; CEL and the output need integers.
func WholeNumbers(v any) any {
	switch x := v.(type) {
	case float64:
		if i := int64(x); float64(i) == x && i != math.MaxInt64 {
			return i
		}
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = WholeNumbers(e)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			out[i] = WholeNumbers(e)
		}
		return out
	}
	return v
}

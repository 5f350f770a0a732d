package value

import "strconv"

// Size returns the approximate length of the JSON text of v: it ignores escapes and the digits of fractions. It stops beyond limit, so it
// takes no longer than that.
func Size(v any, limit int) int {
	left := limit
	size(v, &left)
	return limit - left
}

func size(v any, left *int) {
	switch x := v.(type) {
	case string:
		*left -= len(x) + 2
	case []any:
		*left -= 2
		for _, e := range x {
			if *left < 0 {
				return
			}
			*left-- // the comma
			size(e, left)
		}
	case map[string]any:
		*left -= 2
		for k, e := range x {
			if *left < 0 {
				return
			}
			*left -= len(k) + 4
			size(e, left)
		}
	case float64:
		*left -= width(int64(x))
	case int64:
		*left -= width(x)
	default:
		*left -= len("null")
	}
}

func width(n int64) int {
	if n >= 0 && n < 10 {
		return 1
	}
	var b [20]byte
	return len(strconv.AppendInt(b[:0], n, 10))
}

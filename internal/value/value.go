package value

// Float returns a number in any representation as float64; false if v is not a number.
func Float(v any) (float64, bool) {
	switch n := v.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	case int32:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float32:
		return float64(n), true
	}
	return 0, false
}

// Equal reports whether two values are the same JSON document: the order of keys does not matter, the order of items does, and numbers are
// compared by value (int64 1 equals float64 1.0). Values that are not JSON are never equal.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		return ok && x == y
	case bool:
		y, ok := b.(bool)
		return ok && x == y
	case int64:
		// Two int64 are compared exactly, since a float64 may not distinguish them.
		if y, ok := b.(int64); ok {
			return x == y
		}
		y, ok := Float(b)
		return ok && float64(x) == y
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !Equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !Equal(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	x, ok := Float(a)
	if !ok {
		return false
	}
	y, ok := Float(b)
	return ok && x == y
}

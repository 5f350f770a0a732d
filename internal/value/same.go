package value

// Same reports whether two values agree in all parts that are read. The nil Fields reads everything. Where the decoder keeps a place as a
// whole, the place is compared as a whole.
func (f *Fields) Same(a, b any) bool {
	if f == nil || f.whole {
		return Equal(a, b)
	}
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			return false
		}
		for k := range x {
			if !f.sameMember(k, x, y) {
				return false
			}
		}
		for k := range y {
			if _, both := x[k]; !both && !f.sameMember(k, x, y) {
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
			if !f.item().Same(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	return Equal(a, b)
}

func (f *Fields) sameMember(name string, a, b map[string]any) bool {
	below, omitted := f.member(name)
	if omitted {
		return true
	}
	x, in := a[name]
	y, also := b[name]
	return in == also && below.Same(x, y)
}

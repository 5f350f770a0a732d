package pss

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"

	"ephor.invalid/ephor/internal/budget"
	"ephor.invalid/ephor/internal/value"
)

// maxTyped bounds the memory of the lists in a decoded object. A decoder would make large structs from small JSON: 5 MB of
// empty containers take 1 GB. A pod of 1,000 containers stays below the bound.
const maxTyped = 4 << 20

// conforms checks that a decoded object has the types of Kubernetes' Go type. It returns the number of its values.
func conforms(obj map[string]any, t reflect.Type, meter *budget.Meter) (nodes int, err error) {
	w := walker{meter: meter}
	fits := w.fits(obj, shapeOf(t))
	if w.err != nil {
		return 0, w.err
	}
	if fits {
		return w.nodes, nil
	}
	// A value does not fit, or needs a closer look than the walk takes. The standard decoder decides, and its error is
	// familiar to users.
	return w.nodes, json.Unmarshal(value.AppendJSON(nil, obj), reflect.New(t).Interface())
}

// walker walks over a value along a shape.
type walker struct {
	meter *budget.Meter
	nodes int
	bytes int // memory of decoded lists
	err   error
}

// fits reports whether a value certainly decodes without an error. If it is false, w.err is set if the walk was aborted.
func (w *walker) fits(v any, s *shape) bool {
	if v == nil {
		return true // null does not change a field
	}
	switch s.form {
	case object:
		m, ok := v.(map[string]any)
		if !ok || !w.step(len(m)+1, 0) {
			return false
		}
		for key, e := range m {
			if f := s.fields[key]; f != nil && !w.fits(e, f) {
				return false
			}
		}
		return true
	case dictionary:
		m, ok := v.(map[string]any)
		if !ok || !w.step(len(m)+1, len(m)*(s.elem.size+16)) {
			return false
		}
		for _, e := range m {
			if !w.fits(e, s.elem) {
				return false
			}
		}
		return true
	case list:
		l, ok := v.([]any)
		if !ok || !w.step(len(l)+1, len(l)*s.elem.size) {
			return false
		}
		for _, e := range l {
			if !w.fits(e, s.elem) {
				return false
			}
		}
		return true
	}
	return scalar(v, s)
}

// step counts the work and the memory of one node.
func (w *walker) step(nodes, bytes int) bool {
	w.nodes += nodes
	if w.err = w.meter.Step(nodes); w.err != nil {
		return false
	}
	if w.bytes += bytes; w.bytes > maxTyped {
		w.err = fmt.Errorf("%w: more than %d bytes of lists in a pod", budget.ErrExhausted, maxTyped)
	}
	return w.err == nil
}

// scalar is fits for values without parts.
func scalar(v any, s *shape) bool {
	switch v := v.(type) {
	case string:
		switch s.form {
		case text, intOrText, anything:
			return true
		case quantity:
			return plainQuantity(v)
		case instant:
			return plainInstant(v)
		}
	case bool:
		return s.form == boolean || s.form == anything
	case int64:
		switch s.form {
		case integer:
			return v >= s.low && v <= s.high
		case number, quantity, anything:
			return true
		case intOrText:
			return v >= math.MinInt32 && v <= math.MaxInt32
		}
	case float64:
		whole := v == math.Trunc(v) && math.Abs(v) < 1<<53
		switch s.form {
		case integer:
			return whole && v >= float64(s.low) && v <= float64(s.high)
		case intOrText:
			return whole && math.Abs(v) < math.MaxInt32
		case quantity:
			return whole
		case number, anything:
			return true
		}
	default:
		return s.form == anything
	}
	return false
}

// plainQuantity recognizes the quantities that people write: digits with at most one point, and a unit. The decoder checks
// all others.
func plainQuantity(s string) bool {
	digits, points, i := 0, 0, 0
	for ; i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '.'); i++ {
		if s[i] == '.' {
			points++
		} else {
			digits++
		}
	}
	if digits == 0 || digits > 15 || points > 1 {
		return false
	}
	switch s[i:] {
	case "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei":
		return true
	}
	return false
}

// plainInstant recognizes times as the API server writes them, such as 2026-11-20T05:16:09Z. The decoder checks all others.
func plainInstant(s string) bool {
	const layout = "0000-00-00T00:00:00Z"
	if len(s) != len(layout) {
		return false
	}
	for i := range len(layout) {
		if digit := s[i] >= '0' && s[i] <= '9'; digit != (layout[i] == '0') || !digit && s[i] != layout[i] {
			return false
		}
	}
	// A day that every month has, and an hour that every day has; the decoder checks all others.
	month, day, hour := s[5:7], s[8:10], s[11:13]
	return month >= "01" && month <= "12" && day >= "01" && day <= "28" && hour <= "23" && s[14] < '6' && s[17] < '6'
}

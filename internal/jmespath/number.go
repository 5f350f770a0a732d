package jmespath

import (
	"errors"
	"maps"
	"math/bits"
	"slices"

	"ephor.invalid/ephor/internal/budget"
)

//lint:ignore ST1005 the reference's words
var errZeroStep = errors.New("Invalid slice, step cannot be 0")

// step charges n steps to the evaluation's budget.
func (env *Env) step(n int) error { return env.Meter.Step(n) }

// bytes charges n bytes of newly created data.
func (env *Env) bytes(n int) error { return env.Meter.Bytes(n) }

// items charges a walk over n items whose results are stored in a new list.
func (env *Env) items(n int) error {
	if err := env.step(n); err != nil {
		return err
	}
	return env.bytes(n * 16)
}

// keys charges an object with n keys: a key takes some fifteen times as long as an item.
func (env *Env) keys(n int) error {
	if err := env.step(16 * n); err != nil {
		return err
	}
	return env.bytes(n * 40)
}

// sorting charges for sorting n items whose texts have that many bytes together.
func (env *Env) sorting(n, text int) error {
	return env.step(bits.Len(uint(n)) * (n + text/comparedPerStep))
}

// comparedPerStep is the number of bytes of texts that are compared in one step.
const comparedPerStep = 64

// sortedKeys returns the keys of an object in order, and charges for that.
func (env *Env) sortedKeys(m map[string]any) ([]string, error) {
	text := 0
	for k := range m {
		text += len(k)
	}
	if err := env.sorting(len(m), text); err != nil {
		return nil, err
	}
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	return keys, nil
}

// text charges a newly created string and returns it as a result.
func (env *Env) text(s string) (any, error) {
	if err := env.bytes(len(s)); err != nil {
		return nil, err
	}
	return s, nil
}

// topFloats returns a number as a float64, and a list with its numbers as float64. It does not change deeper values.
func topFloats(v any) any {
	switch x := v.(type) {
	case int64:
		return float64(x)
	case []any:
		for i, item := range x {
			if _, ok := item.(int64); ok {
				out := append(make([]any, 0, len(x)), x[:i]...)
				for _, item := range x[i:] {
					if n, ok := item.(int64); ok {
						item = float64(n)
					}
					out = append(out, item)
				}
				return out
			}
		}
	}
	return v
}

// floats returns v with every number as a float64: the language has no other numbers. It copies only parts that contain
// other numbers.
func floats(v any) any {
	out, _ := asFloats(v, 0)
	return out
}

func asFloats(v any, depth int) (out any, changed bool) {
	switch x := v.(type) {
	case int64:
		return float64(x), true
	case int:
		return float64(x), true
	case int32:
		return float64(x), true
	case []any:
		if depth > budget.MaxDepth {
			return v, false
		}
		var list []any
		for i, item := range x {
			f, changed := asFloats(item, depth+1)
			if changed && list == nil {
				list = append(make([]any, 0, len(x)), x[:i]...)
			}
			if list != nil {
				list = append(list, f)
			}
		}
		if list != nil {
			return list, true
		}
	case map[string]any:
		if depth > budget.MaxDepth {
			return v, false
		}
		var m map[string]any
		for k, item := range x {
			f, changed := asFloats(item, depth+1)
			if !changed {
				continue
			}
			if m == nil {
				m = make(map[string]any, len(x))
				for k, item := range x {
					m[k] = item
				}
			}
			m[k] = f
		}
		if m != nil {
			return m, true
		}
	}
	return v, false
}

// size estimates the work of walking over a value from the size of its top level.
func size(v any) int {
	switch x := v.(type) {
	case string:
		return 1 + len(x)/64
	case []any:
		return 1 + len(x)
	case map[string]any:
		return 1 + len(x)
	}
	return 1
}

package value

import (
	"iter"
	"maps"
	"slices"
	"strconv"
)

// Children yields the members of an object in the order of their keys, or the items of a list, each with its field path: path.key or
// path[index]. It yields nothing for other values.
func Children(v any, path string) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		switch v := v.(type) {
		case []any:
			for i, item := range v {
				if !yield(path+"["+strconv.Itoa(i)+"]", item) {
					return
				}
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				below := key
				if path != "" {
					below = path + "." + key
				}
				if !yield(below, v[key]) {
					return
				}
			}
		}
	}
}

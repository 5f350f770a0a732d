package price

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"

	"ephor.invalid/ephor/internal/cel/values"
)

// The library charges an expression for its work, but not for values that are hidden by sharing: [x, x] costs the same whatever x
// is. Thirty variables, each a list with the previous one twice, create a value that could not be compared or printed in a
// lifetime. Therefore the values in lists and maps that an expression creates are counted as if nothing were shared, and a value
// that is too large ends the evaluation.
const (
	// MaxValues is the maximum number of values in a list or map, at all depths.
	MaxValues = 200_000
	// smallValues is the number up to which values are counted again each time. Larger counts are stored.
	smallValues = 64
	// bytesPerValue is the number of bytes of text that count as one value.
	bytesPerValue = MaxText / MaxValues
)

// Sizes remembers what is counted once in an evaluation: the values of large parts of the object, and those of structs. The nil sizes remembers
// nothing.
type Sizes struct{ known *known } // nil until something is remembered

type known struct {
	counted map[inputPart]int
	structs map[ref.Val]int
}

// remembered returns what is known, and makes it if nothing is.
func (s *Sizes) remembered() *known {
	if s.known == nil {
		s.known = &known{}
	}
	return s.known
}

// Reset forgets the parts of the object, which has changed: their memory may be reused.
func (s *Sizes) Reset() {
	if s.known != nil {
		s.known.counted = nil
	}
}

// StoreStruct stores the number of values in a struct, whose fields cannot be read from outside. ok is false if there are too many.
func (s *Sizes) StoreStruct(v ref.Val, fields []ref.Val) (ok bool) {
	w := 1
	for _, field := range fields {
		if w += 1 + s.Of(field); w > MaxValues {
			return false
		}
	}
	known := s.remembered()
	if known.structs == nil {
		known.structs = map[ref.Val]int{}
	}
	known.structs[v] = w
	return true
}

func (s *Sizes) ofStruct(v ref.Val) int {
	if s != nil && s.known != nil {
		if w, found := s.known.structs[v]; found {
			return w
		}
	}
	return smallValues
}

// largeList and largeMap are lists and maps together with the number of values in them.
type largeList struct {
	traits.Lister
	values int
}

type largeMap struct {
	traits.Mapper
	values int
}

// Limited returns v, together with the number of its values if v is large. ok is false if v is too large.
func (s *Sizes) Limited(v ref.Val) (_ ref.Val, ok bool) {
	switch x := v.(type) {
	case types.Bool, types.String, types.Int, types.Double:
		return v, true
	case *values.Map: // a part of the input; its values are counted where that matters
		return v, true
	case *values.List: // a part of the input, or a sum of such parts
		if len(*x) > MaxValues {
			return nil, false
		}
		return v, true
	case traits.MutableLister, traits.MutableMapper: // still under construction
		return v, true
	case largeList, largeMap:
		return v, true
	case traits.Lister:
		if IsConcatenation(x) {
			flat, ok := flatten(x)
			if !ok {
				return nil, false
			}
			x, v = flat, flat
		}
		switch w := s.Of(x); {
		case w > MaxValues:
			return nil, false
		case w > smallValues:
			return largeList{x, w}, true
		}
	case traits.Mapper:
		switch w := s.Of(x); {
		case w > MaxValues:
			return nil, false
		case w > smallValues:
			return largeMap{x, w}, true
		}
	}
	return v, true
}

// IsConcatenation reports whether v is the library's list of two lists, which searches both for every element each
// time. Its type has no exported name.
func IsConcatenation(v any) bool { return reflect.TypeOf(v).String() == "*types.concatList" }

// flatten copies a list. ok is false if it is too long.
func flatten(l traits.Lister) (flat traits.Lister, ok bool) {
	n, isInt := l.Size().(types.Int)
	if !isInt || n > MaxValues {
		return nil, false
	}
	out := make([]ref.Val, 0, n)
	for it := l.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out), true
}

// Of counts the values in v, shared values as often as they occur. It stops soon above maxValues.
func (s *Sizes) Of(v ref.Val) int {
	switch x := v.(type) {
	case largeList:
		return x.values
	case largeMap:
		return x.values
	case traits.MutableLister, traits.MutableMapper:
		return smallValues // counted when it is complete
	case traits.Lister:
		if IsConcatenation(x) {
			return Size(x) // neither part is large, or the list would have been flattened
		}
		return s.ofContent(x.Value())
	case traits.Mapper:
		return s.ofContent(x.Value())
	case types.String:
		return 1 + len(x)/bytesPerValue
	case types.Bytes:
		return 1 + len(x)/bytesPerValue
	case *types.Optional:
		if x.HasValue() {
			return 1 + s.Of(x.GetValue())
		}
	case *dynamic.ObjectVal, *mutation.JSONPatchVal:
		return s.ofStruct(v)
	}
	return 1
}

func (s *Sizes) ofContent(content any) int {
	n := 1
	switch x := content.(type) {
	case []ref.Val:
		for _, e := range x {
			if n += s.Of(e); n > MaxValues {
				return n
			}
		}
	case map[ref.Val]ref.Val:
		for _, e := range x {
			if n += 1 + s.Of(e); n > MaxValues {
				return n
			}
		}
	default:
		left := smallValues
		if Count(content, &left); left < 0 {
			return s.ofInput(content)
		}
		return smallValues - left
	}
	return n
}

// ofInput returns the number of values in a large part of the object. It counts them once per evaluation, since the object does not
// change.
func (s *Sizes) ofInput(content any) int {
	v := reflect.ValueOf(content)
	if v.Kind() != reflect.Map && v.Kind() != reflect.Slice {
		return smallValues
	}
	if s == nil {
		return valuesInJSON(content)
	}
	at := inputPart{v.Pointer(), v.Len()}
	known := s.remembered()
	w, found := known.counted[at]
	if !found {
		w = valuesInJSON(content)
		if known.counted == nil {
			known.counted = map[inputPart]int{}
		}
		known.counted[at] = w
	}
	return w
}

// inputPart identifies a map or slice of the object.
type inputPart struct {
	pointer uintptr
	length  int
}

// Count subtracts the number of values in a decoded value from left, and stops when left is negative.
func Count(v any, left *int) {
	if *left--; *left < 0 {
		return
	}
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			if Count(e, left); *left < 0 {
				return
			}
		}
	case map[string]any:
		for _, e := range x {
			if Count(e, left); *left < 0 {
				return
			}
		}
	case string:
		*left -= len(x) / bytesPerValue
	}
}

// valuesInJSON counts the values in decoded JSON, up to the maximum that a value may hold.
func valuesInJSON(v any) int {
	left := MaxValues
	Count(v, &left)
	return MaxValues - left
}

// Size returns the length of a text or list, and 1 for other values.
func Size(v ref.Val) int {
	switch x := v.(type) {
	case types.String:
		return len(x)
	case traits.Lister:
		if n, ok := x.Size().(types.Int); ok {
			return int(n)
		}
	}
	return 1
}

func length(v ref.Val) int {
	switch x := v.(type) {
	case types.String:
		return len(x)
	case types.Bytes:
		return len(x)
	}
	return 1
}

package celenv

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// The library charges an expression for its work, but not for values that are hidden by sharing: [x, x] costs the same whatever x
// is. Thirty variables, each a list with the previous one twice, create a value that could not be compared or printed in a
// lifetime. Therefore the values in lists and maps that an expression creates are counted as if nothing were shared, and a value
// that is too large ends the evaluation.
const (
	// maxValues is the maximum number of values in a list or map, at all depths.
	maxValues = 200_000
	// smallValues is the number up to which values are counted again each time. Larger counts are stored.
	smallValues = 64
	// bytesPerValue is the number of bytes of text that count as one value.
	bytesPerValue = maxText / maxValues
)

var errTooLarge = fmt.Errorf("an expression makes a list or map of more than %d values, a text of more than %d bytes, or takes too many steps%w", maxValues, maxText, quiet{ErrBudget})

type limitedConstructor struct {
	interpreter.InterpretableConstructor
	at node
}

// Exec implements the library's interface.
func (w limitedConstructor) Exec(frame *interpreter.ExecutionFrame) ref.Val { return w.Eval(frame) }

func (w limitedConstructor) Eval(vars interpreter.Activation) ref.Val {
	v := w.InterpretableConstructor.Eval(vars)
	if isStruct(v) {
		return w.at.limitStruct(v, vars)
	}
	return limitValues(v, vars)
}

// isStruct reports whether v is an Object or a JSONPatch. Their fields cannot be read from outside.
func isStruct(v ref.Val) bool {
	switch v.(type) {
	case *dynamic.ObjectVal, *mutation.JSONPatchVal:
		return true
	}
	return false
}

// limitStruct stores the number of values in a struct, which is counted from the fields in its literal.
func (n node) limitStruct(v ref.Val, vars interpreter.Activation) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return v
	}
	w := 1
	for _, field := range e.arguments[n] {
		if w += 1 + valuesIn(field, vars); w > maxValues {
			return tooLarge(vars)
		}
	}
	if e.structs == nil {
		e.structs = map[ref.Val]int{}
	}
	e.structs[v] = w
	return v
}

func valuesInStruct(v ref.Val, vars interpreter.Activation) int {
	if e := evaluationOf(vars); e != nil {
		if w, known := e.structs[v]; known {
			return w
		}
	}
	return smallValues
}

// limitResult limits the size of the result of a library function.
func limitResult(v ref.Val, vars interpreter.Activation) ref.Val {
	switch x := v.(type) {
	case types.String:
		if len(x) > maxText {
			return tooLarge(vars)
		}
	case traits.Lister, traits.Mapper:
		return limitValues(v, vars)
	}
	return v
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

// limitValues returns v, together with the number of its values if v is large. If v is too large, it returns an error.
func limitValues(v ref.Val, vars interpreter.Activation) ref.Val {
	switch x := v.(type) {
	case types.Bool, types.String, types.Int, types.Double:
		return v
	case jsonMap: // a part of the input; its values are counted where that matters
		return v
	case jsonList: // a part of the input, or a sum of such parts
		if len(x) > maxValues {
			return tooLarge(vars)
		}
		return v
	case traits.MutableLister, traits.MutableMapper: // still under construction
		return v
	case largeList, largeMap:
		return v
	case traits.Lister:
		if isConcatenation(x) {
			flat, ok := flatten(x)
			if !ok {
				return tooLarge(vars)
			}
			x, v = flat, flat
		}
		switch w := valuesIn(x, vars); {
		case w > maxValues:
			return tooLarge(vars)
		case w > smallValues:
			return largeList{x, w}
		}
	case traits.Mapper:
		switch w := valuesIn(x, vars); {
		case w > maxValues:
			return tooLarge(vars)
		case w > smallValues:
			return largeMap{x, w}
		}
	}
	return v
}

// tooLarge returns the error as a value. It also stores the error in the evaluation, since variables pass on only its text.
func tooLarge(vars interpreter.Activation) ref.Val {
	if e := evaluationOf(vars); e != nil {
		e.failure, e.exceeded = errTooLarge, true
	}
	return types.WrapErr(errTooLarge)
}

// isConcatenation reports whether v is the library's list of two lists, which searches both for every element each
// time. Its type has no exported name.
func isConcatenation(v any) bool { return reflect.TypeOf(v).String() == "*types.concatList" }

// flatten copies a list. ok is false if it is too long.
func flatten(l traits.Lister) (flat traits.Lister, ok bool) {
	n, isInt := l.Size().(types.Int)
	if !isInt || n > maxValues {
		return nil, false
	}
	out := make([]ref.Val, 0, n)
	for it := l.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out), true
}

// valuesIn counts the values in v, shared values as often as they occur. It stops soon above maxValues.
func valuesIn(v ref.Val, vars interpreter.Activation) int {
	switch x := v.(type) {
	case largeList:
		return x.values
	case largeMap:
		return x.values
	case traits.MutableLister, traits.MutableMapper:
		return smallValues // counted when it is complete
	case traits.Lister:
		if isConcatenation(x) {
			return size(x) // neither part is large, or the list would have been flattened
		}
		return valuesInContent(x.Value(), vars)
	case traits.Mapper:
		return valuesInContent(x.Value(), vars)
	case types.String:
		return 1 + len(x)/bytesPerValue
	case types.Bytes:
		return 1 + len(x)/bytesPerValue
	case *types.Optional:
		if x.HasValue() {
			return 1 + valuesIn(x.GetValue(), vars)
		}
	case *dynamic.ObjectVal, *mutation.JSONPatchVal:
		return valuesInStruct(v, vars)
	}
	return 1
}

func valuesInContent(content any, vars interpreter.Activation) int {
	n := 1
	switch x := content.(type) {
	case []ref.Val:
		for _, e := range x {
			if n += valuesIn(e, vars); n > maxValues {
				return n
			}
		}
	case map[ref.Val]ref.Val:
		for _, e := range x {
			if n += 1 + valuesIn(e, vars); n > maxValues {
				return n
			}
		}
	default:
		left := smallValues
		if count(content, &left); left < 0 {
			return valuesInInput(content, vars)
		}
		return smallValues - left
	}
	return n
}

// valuesInInput returns the number of values in a large part of the object. It counts them once per evaluation, since the object does not
// change.
func valuesInInput(content any, vars interpreter.Activation) int {
	e := evaluationOf(vars)
	v := reflect.ValueOf(content)
	if v.Kind() != reflect.Map && v.Kind() != reflect.Slice {
		return smallValues
	}
	if e == nil {
		return valuesInJSON(content)
	}
	at := inputPart{v.Pointer(), v.Len()}
	w, known := e.counted[at]
	if !known {
		left := maxValues
		count(content, &left)
		if w = maxValues - left; e.counted == nil {
			e.counted = map[inputPart]int{}
		}
		e.counted[at] = w
	}
	return w
}

// inputPart identifies a map or slice of the object.
type inputPart struct {
	pointer uintptr
	length  int
}

// count subtracts the number of values in a decoded value from left, and stops when left is negative.
func count(v any, left *int) {
	if *left--; *left < 0 {
		return
	}
	switch x := v.(type) {
	case []any:
		for _, e := range x {
			if count(e, left); *left < 0 {
				return
			}
		}
	case map[string]any:
		for _, e := range x {
			if count(e, left); *left < 0 {
				return
			}
		}
	case string:
		*left -= len(x) / bytesPerValue
	}
}

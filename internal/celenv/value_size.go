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

// The library charges an expression for what it does, but not for what sharing hides: [x, x] costs the same whatever x
// is, so that thirty variables, each a list of the one before, make a value which nothing can compare or print in a
// lifetime. So lists and maps that an expression makes are weighed as if nothing were shared, and too heavy ones end the
// evaluation.
const (
	// maxWeight is how many values a list or map may hold, at all depths.
	maxWeight = 200_000
	// lightWeight is up to where the weight is computed again and again instead of being kept.
	lightWeight = 64
	// bytesPerValue is how many bytes of text weigh as much as a value.
	bytesPerValue = maxText / maxWeight
)

var errTooLarge = fmt.Errorf("an expression makes a list or map of more than %d values, a text of more than %d bytes, or takes too many steps%w", maxWeight, maxText, quiet{ErrBudget})

type weighedConstructor struct {
	interpreter.InterpretableConstructor
	at node
}

func (w weighedConstructor) Eval(vars interpreter.Activation) ref.Val {
	v := w.InterpretableConstructor.Eval(vars)
	if isStruct(v) {
		return w.at.weighStruct(v, vars)
	}
	return weigh(v, vars)
}

// isStruct reports whether v is an Object or a JSONPatch. These values do not give their fields away.
func isStruct(v ref.Val) bool {
	switch v.(type) {
	case *dynamic.ObjectVal, *mutation.JSONPatchVal:
		return true
	}
	return false
}

// weighStruct notes the weight of a struct, which is that of the fields in its literal.
func (n node) weighStruct(v ref.Val, vars interpreter.Activation) ref.Val {
	e := evaluationOf(vars)
	if e == nil {
		return v
	}
	w := 1
	for _, field := range e.arguments[n] {
		if w += 1 + weightOf(field, vars); w > maxWeight {
			return tooLarge(vars)
		}
	}
	if e.structs == nil {
		e.structs = map[ref.Val]int{}
	}
	e.structs[v] = w
	return v
}

func weightOfStruct(v ref.Val, vars interpreter.Activation) int {
	if e := evaluationOf(vars); e != nil {
		if w, known := e.structs[v]; known {
			return w
		}
	}
	return lightWeight
}

// weighResult weighs what a function of the library made.
func weighResult(v ref.Val, vars interpreter.Activation) ref.Val {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return weigh(v, vars)
	}
	return v
}

// heavyList and heavyMap are values with their weight.
type heavyList struct {
	traits.Lister
	weight int
}

type heavyMap struct {
	traits.Mapper
	weight int
}

// weigh gives v with its weight noted if it is heavy, or the error that it is too heavy.
func weigh(v ref.Val, vars interpreter.Activation) ref.Val {
	switch x := v.(type) {
	case types.Bool, types.String, types.Int, types.Double:
		return v
	case jsonMap: // a part of what is given; it is weighed where that matters
		return v
	case jsonList: // or a sum of such parts
		if len(x) > maxWeight {
			return tooLarge(vars)
		}
		return v
	case traits.MutableLister, traits.MutableMapper: // still being made
		return v
	case heavyList, heavyMap:
		return v
	case traits.Lister:
		if isConcatenation(x) {
			flat, ok := flatten(x)
			if !ok {
				return tooLarge(vars)
			}
			x, v = flat, flat
		}
		switch w := weightOf(x, vars); {
		case w > maxWeight:
			return tooLarge(vars)
		case w > lightWeight:
			return heavyList{x, w}
		}
	case traits.Mapper:
		switch w := weightOf(x, vars); {
		case w > maxWeight:
			return tooLarge(vars)
		case w > lightWeight:
			return heavyMap{x, w}
		}
	}
	return v
}

// tooLarge is the error as a value; the evaluation gets it separately, since variables pass on only the text.
func tooLarge(vars interpreter.Activation) ref.Val {
	if e := evaluationOf(vars); e != nil {
		e.failure = errTooLarge
	}
	return types.WrapErr(errTooLarge)
}

// isConcatenation reports whether v is the library's list of two lists, which asks both for every element, again and
// again. The type has no exported name.
func isConcatenation(v any) bool { return reflect.TypeOf(v).String() == "*types.concatList" }

// flatten copies a list; ok is false when it is too long.
func flatten(l traits.Lister) (flat traits.Lister, ok bool) {
	n, isInt := l.Size().(types.Int)
	if !isInt || n > maxWeight {
		return nil, false
	}
	out := make([]ref.Val, 0, n)
	for it := l.Iterator(); it.HasNext() == types.True; {
		out = append(out, it.Next())
	}
	return types.NewRefValList(types.DefaultTypeAdapter, out), true
}

// weightOf counts the values in v, shared ones as often as they occur. It stops soon above maxWeight.
func weightOf(v ref.Val, vars interpreter.Activation) int {
	switch x := v.(type) {
	case heavyList:
		return x.weight
	case heavyMap:
		return x.weight
	case traits.MutableLister, traits.MutableMapper:
		return lightWeight // weighed when it is made
	case traits.Lister:
		if isConcatenation(x) {
			return size(x) // neither is heavy, or it would have been flattened
		}
		return weightOfContent(x.Value(), vars)
	case traits.Mapper:
		return weightOfContent(x.Value(), vars)
	case types.String:
		return 1 + len(x)/bytesPerValue
	case *types.Optional:
		if x.HasValue() {
			return 1 + weightOf(x.GetValue(), vars)
		}
	case *dynamic.ObjectVal, *mutation.JSONPatchVal:
		return weightOfStruct(v, vars)
	}
	return 1
}

func weightOfContent(content any, vars interpreter.Activation) int {
	n := 1
	switch x := content.(type) {
	case []ref.Val:
		for _, e := range x {
			if n += weightOf(e, vars); n > maxWeight {
				return n
			}
		}
	case map[ref.Val]ref.Val:
		for _, e := range x {
			if n += 1 + weightOf(e, vars); n > maxWeight {
				return n
			}
		}
	default:
		left := lightWeight
		if count(content, &left); left < 0 {
			return weightOfInput(content, vars)
		}
		return lightWeight - left
	}
	return n
}

// weightOfInput is the weight of a large part of the object, found once in an evaluation: the object does not change.
func weightOfInput(content any, vars interpreter.Activation) int {
	e := evaluationOf(vars)
	v := reflect.ValueOf(content)
	if e == nil || v.Kind() != reflect.Map && v.Kind() != reflect.Slice {
		return lightWeight
	}
	at := inputPart{v.Pointer(), v.Len()}
	w, known := e.weights[at]
	if !known {
		left := maxWeight
		count(content, &left)
		if w = maxWeight - left; e.weights == nil {
			e.weights = map[inputPart]int{}
		}
		e.weights[at] = w
	}
	return w
}

// inputPart identifies a map or slice of the object.
type inputPart struct {
	pointer uintptr
	length  int
}

// count takes the number of values in a decoded value off left, and ends when nothing is left.
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

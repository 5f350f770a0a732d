package values

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// Maps and lists of decoded JSON are used as CEL values without conversion: a Map or a List needs memory for a pointer or a slice header
// only. The library's own wrappers allocate memory for each access. Both are pointers as CEL values, because the library uses values as
// keys of Go's maps, and evaluates `x in {'a': 1}` with them.
type (
	Map  map[string]any
	List []any
)

// Adapter converts decoded JSON to CEL values. It passes all other values to the library's adapter.
type Adapter struct{ Next types.Adapter }

// NativeToValue implements the library's interface.
func (a Adapter) NativeToValue(v any) ref.Val {
	switch x := v.(type) {
	case ref.Val:
		return x
	case map[string]any:
		if x == nil {
			return types.NullValue
		}
		m := Map(x)
		return &m
	case []any:
		l := List(x)
		return &l
	case nil:
		return types.NullValue
	case string:
		return types.String(x)
	case bool:
		return types.Bool(x)
	case int64:
		return types.Int(x)
	case float64:
		return types.Double(x)
	}
	return a.Next.NativeToValue(v)
}

// JSON is the adapter for code without access to an environment.
var JSON = Adapter{types.DefaultTypeAdapter}

func (m *Map) full() traits.Mapper {
	return types.NewStringInterfaceMap(JSON, *m)
}

func (l *List) full() traits.Lister { return types.NewDynamicList(JSON, []any(*l)) }

// ConvertToNative implements the library's interface.
func (m *Map) ConvertToNative(t reflect.Type) (any, error) { return m.full().ConvertToNative(t) }

// ConvertToType implements the library's interface.
func (m *Map) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return m
	}
	return m.full().ConvertToType(t)
}

// Equal implements the library's interface.
func (m *Map) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*Map); ok {
		return types.Bool(equal(map[string]any(*m), map[string]any(*o)))
	}
	return m.full().Equal(other)
}

// Type implements the library's interface.
func (*Map) Type() ref.Type { return types.MapType }

// Value implements the library's interface.
func (m *Map) Value() any { return map[string]any(*m) }

// Contains implements the library's interface.
func (m *Map) Contains(key ref.Val) ref.Val {
	_, found := m.Find(key)
	return types.Bool(found)
}

// Find implements the library's interface.
func (m *Map) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false
	}
	v, found := (*m)[string(name)]
	if !found {
		return nil, false
	}
	return JSON.NativeToValue(v), true
}

// Get implements the library's interface.
func (m *Map) Get(key ref.Val) ref.Val {
	v, found := m.Find(key)
	if !found {
		return types.ValOrErr(v, "no such key: %v", key)
	}
	return v
}

// Size implements the library's interface.
func (m *Map) Size() ref.Val { return types.Int(len(*m)) }

// IsZeroValue implements the library's interface.
func (m *Map) IsZeroValue() bool { return len(*m) == 0 }

// Iterator implements the library's interface. It returns the names in sorted order, so that the same request always produces the same
// text.
func (m *Map) Iterator() traits.Iterator {
	i := &nameIterator{}
	i.names = m.names(i.room[:0])
	return i
}

// names appends the names to in and sorts the result.
func (m *Map) names(in []string) []string {
	in = slices.Grow(in, len(*m))
	for name := range *m {
		in = append(in, name)
	}
	slices.Sort(in)
	return in
}

// Fold implements the library's interface.
func (m *Map) Fold(f traits.Folder) {
	for _, name := range m.names(nil) {
		if !f.FoldEntry(name, (*m)[name]) {
			return
		}
	}
}

func (m *Map) String() string { return fmt.Sprint(m.full()) }

// ConvertToNative implements the library's interface.
func (l *List) ConvertToNative(t reflect.Type) (any, error) { return l.full().ConvertToNative(t) }

// ConvertToType implements the library's interface.
func (l *List) ConvertToType(t ref.Type) ref.Val {
	if t == types.ListType {
		return l
	}
	return l.full().ConvertToType(t)
}

// Equal implements the library's interface.
func (l *List) Equal(other ref.Val) ref.Val {
	if o, ok := other.(*List); ok {
		return types.Bool(equal([]any(*l), []any(*o)))
	}
	return l.full().Equal(other)
}

// Type implements the library's interface.
func (*List) Type() ref.Type { return types.ListType }

// Value implements the library's interface.
func (l *List) Value() any { return []any(*l) }

// Add implements the library's interface. The sum of two lists of JSON is a list of JSON.
func (l *List) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	switch {
	case !ok:
		return types.MaybeNoSuchOverloadErr(other)
	case len(*l) == 0:
		return other
	case o.Size() == types.IntZero:
		return l
	}
	if o, ok := other.(*List); ok {
		sum := slices.Concat(*l, *o)
		return &sum
	}
	return l.full().Add(other)
}

// Contains implements the library's interface.
func (l *List) Contains(v ref.Val) ref.Val {
	if s, ok := v.(types.String); ok {
		for _, e := range *l {
			if e == any(string(s)) {
				return types.True
			}
		}
		return types.False
	}
	return l.full().Contains(v)
}

// Get implements the library's interface.
func (l *List) Get(index ref.Val) ref.Val {
	if i, ok := index.(types.Int); ok && i >= 0 && int(i) < len(*l) {
		return JSON.NativeToValue((*l)[i])
	}
	return l.full().Get(index)
}

// Size implements the library's interface.
func (l *List) Size() ref.Val { return types.Int(len(*l)) }

// IsZeroValue implements the library's interface.
func (l *List) IsZeroValue() bool { return len(*l) == 0 }

// Iterator implements the library's interface.
func (l *List) Iterator() traits.Iterator { return &elementIterator{list: *l} }

// Fold implements the library's interface.
func (l *List) Fold(f traits.Folder) {
	for i, e := range *l {
		if !f.FoldEntry(i, e) {
			return
		}
	}
}

func (l *List) String() string { return fmt.Sprint(l.full()) }

// equal compares decoded JSON as CEL does: it compares numbers by value, whatever their types.
func equal(a, b any) bool {
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		return ok && x == y
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			if w, ok := y[k]; !ok || !equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i, v := range x {
			if !equal(v, y[i]) {
				return false
			}
		}
		return true
	}
	return types.Equal(JSON.NativeToValue(a), JSON.NativeToValue(b)) == types.True
}

// iterator implements the methods of ref.Val for iterators.
type iterator struct{}

// ConvertToNative implements the library's interface.
func (iterator) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion on iterators not supported: %v", t)
}

// ConvertToType implements the library's interface.
func (iterator) ConvertToType(ref.Type) ref.Val { return types.NewErr("no such overload") }

// Equal implements the library's interface.
func (iterator) Equal(ref.Val) ref.Val { return types.NewErr("no such overload") }

// Type implements the library's interface.
func (iterator) Type() ref.Type { return types.IteratorType }

// Value implements the library's interface.
func (iterator) Value() any { return nil }

type nameIterator struct {
	iterator
	names []string
	at    int
	room  [4]string // storage for names, large enough for most maps
}

// HasNext implements the library's interface.
func (i *nameIterator) HasNext() ref.Val { return types.Bool(i.at < len(i.names)) }

// Next implements the library's interface.
func (i *nameIterator) Next() ref.Val {
	i.at++
	return types.String(i.names[i.at-1])
}

type elementIterator struct {
	iterator
	list List
	at   int
}

// HasNext implements the library's interface.
func (i *elementIterator) HasNext() ref.Val { return types.Bool(i.at < len(i.list)) }

// Next implements the library's interface.
func (i *elementIterator) Next() ref.Val {
	i.at++
	return JSON.NativeToValue(i.list[i.at-1])
}

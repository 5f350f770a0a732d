package celenv

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// opaque implements the common behaviour of library types: their values cannot be converted to other types.
type opaque struct{ kind *cel.Type }

// ConvertToNative implements the library's interface.
func (o opaque) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", o.kind.TypeName(), t)
}

func (o opaque) convert(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case o.kind:
		return v
	case types.TypeType:
		return o.kind
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.kind.TypeName(), t.TypeName())
}

// record is a value with named texts, such as a service account.
type record struct {
	kind   *cel.Type
	fields *map[string]any // by the names in expressions
	shown  *map[string]any // by the names in JSON
}

// newRecord returns a value of the kind with these fields. shown has their names in JSON.
func newRecord(kind *cel.Type, fields, shown map[string]any) ref.Val {
	return record{kind, &fields, &shown}
}

// ConvertToNative implements the library's interface.
func (r record) ConvertToNative(t reflect.Type) (any, error) {
	return opaque{r.kind}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (r record) ConvertToType(t ref.Type) ref.Val { return opaque{r.kind}.convert(r, t) }

// Equal implements the library's interface.
func (r record) Equal(other ref.Val) ref.Val {
	o, ok := other.(record)
	return types.Bool(ok && o.kind == r.kind && reflect.DeepEqual(*r.fields, *o.fields))
}

// Type implements the library's interface.
func (r record) Type() ref.Type { return r.kind }

// Value implements the library's interface.
func (r record) Value() any { return *r.fields }

func (r record) document() any { return *r.shown }

// Get implements the library's interface.
func (r record) Get(index ref.Val) ref.Val {
	v, ok := (*r.fields)[text(index)]
	if !ok {
		return types.NewErr("no such key: %s", text(index))
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// IsSet implements the library's interface.
func (r record) IsSet(field ref.Val) ref.Val {
	_, ok := (*r.fields)[text(field)]
	return types.Bool(ok)
}

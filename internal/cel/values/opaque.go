package values

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

// Opaque implements the common behaviour of library types: their values cannot be converted to other types.
type Opaque struct{ Kind *cel.Type }

// ConvertToNative implements the library's interface.
func (o Opaque) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s' to '%v'", o.Kind.TypeName(), t)
}

// Convert converts v, a value of the type, to t: only the type itself and the type of types are possible.
func (o Opaque) Convert(v ref.Val, t ref.Type) ref.Val {
	switch t {
	case o.Kind:
		return v
	case types.TypeType:
		return o.Kind
	}
	return types.NewErr("type conversion error from '%s' to '%s'", o.Kind.TypeName(), t.TypeName())
}

// Record is a value with named texts, such as a service account.
type Record struct {
	kind   *cel.Type
	fields *map[string]any // by the names in expressions
	shown  *map[string]any // by the names in JSON
}

// NewRecord returns a value of the kind with these fields. shown has their names in JSON.
func NewRecord(kind *cel.Type, fields, shown map[string]any) ref.Val {
	return Record{kind, &fields, &shown}
}

// ConvertToNative implements the library's interface.
func (r Record) ConvertToNative(t reflect.Type) (any, error) {
	return Opaque{r.kind}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (r Record) ConvertToType(t ref.Type) ref.Val { return Opaque{r.kind}.Convert(r, t) }

// Equal implements the library's interface.
func (r Record) Equal(other ref.Val) ref.Val {
	o, ok := other.(Record)
	return types.Bool(ok && o.kind == r.kind && reflect.DeepEqual(*r.fields, *o.fields))
}

// Type implements the library's interface.
func (r Record) Type() ref.Type { return r.kind }

// Value implements the library's interface.
func (r Record) Value() any { return *r.fields }

// Document returns the JSON form.
func (r Record) Document() any { return *r.shown }

// Get implements the library's interface.
func (r Record) Get(index ref.Val) ref.Val {
	v, ok := (*r.fields)[Text(index)]
	if !ok {
		return types.NewErr("no such key: %s", Text(index))
	}
	return types.DefaultTypeAdapter.NativeToValue(v)
}

// IsSet implements the library's interface.
func (r Record) IsSet(field ref.Val) ref.Val {
	_, ok := (*r.fields)[Text(field)]
	return types.Bool(ok)
}

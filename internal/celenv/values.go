package celenv

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/value"
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

// gvr is a resource with its group and version.
type gvr struct{ apiVersion, resource string }

// ConvertToNative implements the library's interface.
func (g gvr) ConvertToNative(t reflect.Type) (any, error) { return opaque{gvrType}.ConvertToNative(t) }

// ConvertToType implements the library's interface.
func (g gvr) ConvertToType(t ref.Type) ref.Val { return opaque{gvrType}.convert(g, t) }

// Equal implements the library's interface.
func (g gvr) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(g) == other) }

// Type implements the library's interface.
func (g gvr) Type() ref.Type { return gvrType }

// Value implements the library's interface.
func (g gvr) Value() any { return g.document() }

func (g gvr) document() any {
	group, version, ok := strings.Cut(g.apiVersion, "/")
	if !ok {
		group, version = "", g.apiVersion
	}
	return map[string]any{"Group": group, "Version": version, "Resource": g.resource}
}

// record is a value with named texts, such as a service account.
type record struct {
	kind   *cel.Type
	fields *map[string]any // by the names in expressions
	shown  *map[string]any // by the names in JSON
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

// decodedOther converts a value that is not a JSON type to decoded JSON.
func decodedOther(v ref.Val) (any, error) {
	raw, err := json.Marshal(v.Value())
	if err != nil {
		return nil, err
	}
	return value.DecodeJSON(raw)
}

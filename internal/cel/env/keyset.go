package env

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/jwt"
	"ephor.invalid/ephor/internal/cel/values"
)

// keySet is a set of keys that verify tokens.
type keySet struct{ list []jwt.Key }

// ConvertToNative implements the library's interface.
func (s keySet) ConvertToNative(t reflect.Type) (any, error) {
	return values.Opaque{Kind: keySetType}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (s keySet) ConvertToType(t ref.Type) ref.Val {
	return values.Opaque{Kind: keySetType}.Convert(s, t)
}

// Equal implements the library's interface.
func (s keySet) Equal(other ref.Val) ref.Val {
	o, ok := other.(keySet)
	return types.Bool(ok && reflect.DeepEqual(o.list, s.list))
}

// Type implements the library's interface.
func (s keySet) Type() ref.Type { return keySetType }

// Value implements the library's interface.
func (s keySet) Value() any { return s.Document() }

// Document returns the IDs of the keys. It does not show the keys themselves.
func (s keySet) Document() any {
	ids := []any{}
	for _, k := range s.list {
		ids = append(ids, k.ID)
	}
	return map[string]any{"keys": ids}
}

package celenv

import (
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/cel/jwt"
)

// keySet is a set of keys that verify tokens.
type keySet struct{ list []jwt.Key }

// ConvertToNative implements the library's interface.
func (s keySet) ConvertToNative(t reflect.Type) (any, error) {
	return opaque{keySetType}.ConvertToNative(t)
}

// ConvertToType implements the library's interface.
func (s keySet) ConvertToType(t ref.Type) ref.Val { return opaque{keySetType}.convert(s, t) }

// Equal implements the library's interface.
func (s keySet) Equal(other ref.Val) ref.Val {
	o, ok := other.(keySet)
	return types.Bool(ok && reflect.DeepEqual(o.list, s.list))
}

// Type implements the library's interface.
func (s keySet) Type() ref.Type { return keySetType }

// Value implements the library's interface.
func (s keySet) Value() any { return s.document() }

// document returns the IDs of the keys. It does not show the keys themselves.
func (s keySet) document() any {
	ids := []any{}
	for _, k := range s.list {
		ids = append(ids, k.ID)
	}
	return map[string]any{"keys": ids}
}

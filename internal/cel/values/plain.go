package values

import (
	"fmt"
	"reflect"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// Plain converts a value to JSON values, of which objects consist. Numbers keep their type, times and durations become texts, and bytes
// become base64. A value without a JSON form, such as a quantity or optional.none(), is an error. Parts of the input are shared, not
// copied.
func Plain(v ref.Val) (any, error) {
	switch x := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(x), nil
	case types.Int:
		return int64(x), nil
	case types.Uint:
		if x > 1<<63-1 {
			return float64(x), nil
		}
		return int64(x), nil
	case types.Double:
		return float64(x), nil
	case types.String:
		return string(x), nil
	case *types.Err:
		return nil, x
	case *types.Optional:
		if !x.HasValue() {
			return nil, errNoValue
		}
		return Plain(x.GetValue())
	case *dynamic.ObjectVal:
		if err := x.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, fmt.Errorf("type mismatch: %w", err)
		}
		return x.Value(), nil
	case traits.Lister:
		return nativeList(x)
	case traits.Mapper:
		return nativeMap(x)
	}
	p, err := v.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	if err != nil {
		return nil, err
	}
	return p.(*structpb.Value).AsInterface(), nil
}

// errNoValue has the library's text.
var errNoValue = fmt.Errorf("optional.none() dereference")

func nativeList(l traits.Lister) (any, error) {
	if in, ok := l.Value().([]any); ok && isPlain(in) {
		return in, nil
	}
	out := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		v, err := Plain(it.Next())
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func nativeMap(m traits.Mapper) (any, error) {
	if in, ok := m.Value().(map[string]any); ok && isPlain(in) {
		return in, nil
	}
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("unsupported type conversion of a map's key from '%s' to 'string'", key.Type().TypeName())
		}
		v, err := Plain(m.Get(key))
		if err != nil {
			return nil, err
		}
		out[string(name)] = v
	}
	return out, nil
}

// isPlain reports whether a value consists entirely of decoded JSON.
func isPlain(v any) bool {
	switch x := v.(type) {
	case nil, bool, string, int64, float64:
		return true
	case []any:
		for _, e := range x {
			if !isPlain(e) {
				return false
			}
		}
		return true
	case map[string]any:
		for _, e := range x {
			if !isPlain(e) {
				return false
			}
		}
		return true
	}
	return false
}

package celenv

import (
	"encoding/json"
	"fmt"
	"time"

	"ephor.invalid/ephor/internal/value"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// maxNestingOfValues is the maximum nesting of lists and maps that are converted.
const maxNestingOfValues = 1000

// decoded converts a CEL value to decoded JSON.
func decoded(v ref.Val, depth int) (any, error) {
	if depth == 0 {
		return nil, fmt.Errorf("lists and maps nest more than %d levels deep", maxNestingOfValues)
	}
	switch x := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(x), nil
	case types.Int:
		return int64(x), nil
	case types.Uint:
		return uint64(x), nil
	case types.Double:
		return float64(x), nil
	case types.String:
		return string(x), nil
	case types.Bytes:
		return []byte(x), nil
	case types.Duration:
		return int64(x.Duration), nil
	case types.Timestamp:
		return x.Time.Format(time.RFC3339Nano), nil
	case *types.Optional:
		if !x.HasValue() {
			return nil, nil
		}
		return decoded(x.GetValue(), depth-1)
	case documented:
		return x.document(), nil
	case *mutation.JSONPatchVal:
		return decodedPatch(x, depth)
	case traits.Mapper:
		return decodedMap(x, depth)
	case traits.Lister:
		out := []any{}
		for it := x.Iterator(); it.HasNext() == types.True; {
			element, err := decoded(it.Next(), depth-1)
			if err != nil {
				return nil, err
			}
			out = append(out, element)
		}
		return out, nil
	}
	if err, ok := v.(*types.Err); ok {
		return nil, err
	}
	return decodedOther(v)
}

func decodedMap(m traits.Mapper, depth int) (any, error) {
	if native, ok := m.Value().(map[string]any); ok {
		return native, nil
	}
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("json: unsupported type: map[%s]", key.Type().TypeName())
		}
		member, err := decoded(m.Get(key), depth-1)
		if err != nil {
			return nil, err
		}
		out[string(name)] = member
	}
	return out, nil
}

// decodedPatch converts an operation of a JSON patch, and omits the fields that it does not have.
func decodedPatch(p *mutation.JSONPatchVal, depth int) (any, error) {
	out := map[string]any{"op": p.Op, "path": p.Path}
	if p.From != "" {
		out["from"] = p.From
	}
	if p.Val != nil {
		v, err := decoded(p.Val, depth-1)
		if err != nil {
			return nil, err
		}
		out["value"] = v
	}
	return out, nil
}

// documented is a value of a library type that has a JSON form.
type documented interface{ document() any }

// decodedOther converts a value that is not a JSON type to decoded JSON.
func decodedOther(v ref.Val) (any, error) {
	raw, err := json.Marshal(v.Value())
	if err != nil {
		return nil, err
	}
	return value.DecodeJSON(raw)
}

// text returns the text in an argument.
func text(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// failed returns the error value of a call, for a mistake in the policy or in the data.
func failed(format string, args ...any) ref.Val { return types.NewErr(format, args...) }

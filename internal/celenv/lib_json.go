package celenv

import (
	"fmt"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/mutation"

	"ephor.invalid/ephor/internal/value"
)

// maxDocument is the maximum size of texts that are decoded as JSON or YAML, in bytes.
const maxDocument = 1 << 20

var libJSON = &Library{
	Name:  "json",
	Doc:   "Parsing and encoding of JSON. Parsed numbers are doubles.",
	Kinds: everyPolicy,
	Functions: []Function{
		{
			Names:     []string{"json.unmarshal"},
			Overloads: []Overload{{Args: []*cel.Type{cel.StringType}, Result: cel.DynType}},
			Doc:       "Parses JSON.",
			Example:   `json.unmarshal('{"a": [1, 2]}').a`,
			Result:    `[1,2]`,
			cost:      unmarshalCost,
			call:      unmarshal("json.unmarshal"),
		},
		{
			Names:     []string{"json.marshal"},
			Overloads: []Overload{{Args: []*cel.Type{cel.DynType}, Result: cel.StringType}},
			Doc:       "Encodes a value as JSON. Map keys must be strings. A duration becomes a number of nanoseconds, an empty optional null.",
			Example:   `json.marshal({'a': [1, 2]})`,
			Result:    `"{\"a\":[1,2]}"`,
			cost:      costOfValue,
			call: func(e *Evaluation, args []ref.Val) ref.Val {
				v, err := decoded(args[0], maxNestingOfValues)
				if err != nil {
					return types.WrapErr(err)
				}
				out := escapeHTML.Replace(value.JSON(v))
				e.take(len(out) / bytesPerPart)
				return types.String(out)
			},
		},
	},
}

// escapeHTML escapes HTML characters as encoding/json does.
var escapeHTML = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`)

// maxNestingOfValues is the maximum nesting of lists and maps that are converted.
const maxNestingOfValues = 1000

// costOfValue returns the cost of a call: one part for each value in the first argument.
func costOfValue(args []ref.Val) int {
	return 4 * valuesIn(args[0], nil)
}

// native converts decoded JSON to a CEL value.
func (e *Evaluation) native(v any) ref.Val { return types.DefaultTypeAdapter.NativeToValue(v) }

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

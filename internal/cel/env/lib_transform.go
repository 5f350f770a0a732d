package env

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
)

var mapsType = cel.ListType(cel.MapType(cel.StringType, cel.DynType))

var libTransform = &Library{
	Name:  "transform",
	Doc:   "Building maps from lists of objects.",
	Kinds: everyPolicy,
	Functions: []Function{{
		Names:     []string{"transform.listObjToMap", "listObjToMap"},
		Overloads: []Overload{{Args: []*cel.Type{mapsType, mapsType, cel.StringType, cel.StringType}, Result: cel.MapType(cel.StringType, cel.DynType)}},
		Doc: "Builds a map from two lists of objects of equal length: the first provides the keys, in the field that the third argument names; the second provides " +
			"the values, in the field that the fourth argument names.",
		Example: `transform.listObjToMap([{'k': 'a'}], [{'v': 'b'}], 'k', 'v')`,
		Result:  `{"a":"b"}`,
		cost:    func(args []ref.Val) int { return price.NodeSteps * (1 + 4*price.Size(args[0])) },
		call: func(_ *Scope, args []ref.Val) ref.Val {
			keys, items := args[0].(traits.Lister), args[1].(traits.Lister)
			if a, b := price.Size(keys), price.Size(items); a != b {
				return values.Errorf("listObjToMap must take lists of equal length. list1: %d, list2: %d", a, b)
			}
			out := map[ref.Val]ref.Val{}
			for i, n := 0, price.Size(keys); i < n; i++ {
				key, _ := field(keys.Get(types.Int(i)), args[2])
				name, ok := key.(types.String)
				if !ok {
					return values.Errorf("the passed key name cannot be handled as a string in the key object list") // copied verbatim from Kyverno
				}
				v, ok := field(items.Get(types.Int(i)), args[3])
				if !ok {
					v = types.NullValue
				}
				out[name] = v
			}
			return types.NewRefValMap(types.DefaultTypeAdapter, out)
		},
	}},
}

// field returns a member of a map.
func field(of, name ref.Val) (ref.Val, bool) {
	m, ok := of.(traits.Mapper)
	if !ok {
		return nil, false
	}
	return m.Find(name)
}

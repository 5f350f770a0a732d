package env

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"ephor.invalid/ephor/internal/cel/price"
	"ephor.invalid/ephor/internal/cel/values"
	"ephor.invalid/ephor/internal/world"
)

// libGenerator passes objects to Input.Generate.
var libGenerator = &Library{
	Name:  "generator",
	Doc:   "Generates objects. In namespaced policies the function has no namespace argument.",
	Kinds: kindsOf(Generating),
	Functions: []Function{{
		Names: []string{"generator.apply", "generator.Apply"},
		Overloads: []Overload{
			onCluster(cel.BoolType, cel.StringType, generated), inNamespace(cel.BoolType, generated),
		},
		Doc:     "Generates the objects of a list, in the given namespace if their kind is namespaced. It always returns true.",
		Example: "generator.apply('default', [{'apiVersion': dyn('v1'), 'kind': dyn('ConfigMap'), 'metadata': dyn({'name': 'settings'})}])",
		Result:  `true`,
		cost:    costOfObjects,
		call: func(e *Scope, args []ref.Val) ref.Val {
			list := args[len(args)-1].(traits.Lister)
			namespace := e.namespace()
			if len(args) > 1 {
				namespace = values.Text(args[0])
			}
			objects := []map[string]any{}
			for it := list.Iterator(); it.HasNext() == types.True; {
				v, err := values.Plain(it.Next())
				if err != nil {
					return types.WrapErr(fmt.Errorf("invalid arg %d: %w", len(args), err))
				}
				object, ok := v.(map[string]any)
				if !ok {
					return values.Errorf("failed to generate resources: an element of the list is not an object")
				}
				objects = append(objects, object)
			}
			if e.Generate == nil {
				return e.unknown(fmt.Errorf("failed to generate resources: generating is %w", world.ErrUnavailable))
			}
			if err := e.Generate(namespace, objects); err != nil {
				return types.WrapErr(fmt.Errorf("failed to generate resources: %w", err))
			}
			return types.True
		},
	}},
}

var generated = cel.ListType(cel.MapType(cel.StringType, cel.AnyType))

func costOfObjects(args []ref.Val) int {
	return price.NodeSteps * (100 + 2*(*price.Sizes)(nil).Of(args[len(args)-1]))
}

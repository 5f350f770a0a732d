package celenv

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"ephor.invalid/ephor/internal/world"
)

// libGlobalContext queries world.Globals, which namespaced policies cannot access.
var libGlobalContext = &Library{
	Name:  "globalContext",
	Doc:   "The data of GlobalContextEntries. Namespaced policies cannot read them.",
	Kinds: everyPolicy,
	Asks:  true,
	Functions: []Function{{
		Names: []string{"globalContext.get", "globalContext.Get"},
		Overloads: []Overload{
			{Args: []*cel.Type{cel.StringType}, Result: cel.DynType}, {Args: []*cel.Type{cel.StringType, cel.StringType}, Result: cel.DynType},
		},
		Doc:     "Returns the data of an entry, or one of its projections; null if the entry does not exist.",
		Example: "globalContext.get('deployments', 'names')",
		Result:  `["b"]`,
		cost:    asking,
		call: func(e *Scope, args []ref.Val) ref.Val {
			name, projection := text(args[0]), ""
			if len(args) > 1 {
				projection = text(args[1])
			}
			v, err := e.global(name, projection)
			if none := (*world.NoGlobalError)(nil); errors.As(err, &none) {
				return types.NullValue
			}
			if none := (*world.NoProjectionError)(nil); errors.As(err, &none) {
				err = fmt.Errorf("projection %q not found in global context entry %q", projection, name)
			}
			if err != nil {
				return e.unanswered("failed to get global reference", err)
			}
			return e.answer(v)
		},
	}},
}

func (e *Scope) global(name, projection string) (any, error) {
	if e.world().Globals == nil {
		return nil, fmt.Errorf("global context entries are %w", world.ErrUnavailable)
	}
	if projection != "" {
		name += "." + projection
	}
	return e.world().Globals(e.Context(), world.GlobalRequest(name))
}

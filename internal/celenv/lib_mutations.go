package celenv

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// The types of mutations: Object, with types such as Object.spec below it, and JSONPatch.
var (
	objectType    = cel.ObjectType(mutation.ObjectTypeName)
	jsonPatchList = cel.ListType(cel.ObjectType(mutation.JSONPatchTypeName))
)

var libMutations = &Library{
	Name:  "mutations",
	Doc:   "The types Object and JSONPatch, of which mutations are made, and jsonpatch.escapeKey.",
	Kinds: kindsOf(Native, Mutating),
	options: func(Declarations) []cel.EnvOption {
		return []cel.EnvOption{common.ResolverEnvOption(&mutation.DynamicTypeResolver{}), library.JSONPatch()}
	},
	optIn: true,
}

// Mutations lets the expressions compiled from now on make mutations: values of type Object, and lists of JSONPatch.
func (c *Compiler) Mutations() error {
	if c.declared.Kind != Native {
		return nil // it has them, or may not make any
	}
	env, err := extended(c.env, libMutations.options(c.declared)...)
	if err != nil {
		return err
	}
	c.env = env
	c.planner, err = mutating(env)
	return err
}

// mutating is the planner of the API server's policies that mutate.
func mutating(env *cel.Env) (*planner, error) {
	mutatingOnce.Do(func() { mutatingPlanner, errMutating = newPlanner(env, Declarations{}) })
	return mutatingPlanner, errMutating
}

var (
	mutatingOnce    sync.Once
	mutatingPlanner *planner
	errMutating     error
)

// Value evaluates an expression of any type. Lists and maps of the result hold no more values than the guards allow.
func (e *Evaluation) Value(x *Expression) (ref.Val, error) { return e.value(x) }

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
	Doc:   "The types Object and JSONPatch, from which mutations are built, and jsonpatch.escapeKey.",
	Kinds: kindsOf(Native, Mutating),
	options: func(Declarations) []cel.EnvOption {
		return []cel.EnvOption{common.ResolverEnvOption(&mutation.DynamicTypeResolver{}), library.JSONPatch()}
	},
	optIn: true,
}

// Mutations allows the expressions that are compiled from now on to return mutations: values of type Object, and lists of JSONPatch.
func (c *Compiler) Mutations() error {
	if c.declared.Kind != Native {
		return nil // mutations are already allowed, or never allowed
	}
	env, err := extended(c.env, libMutations.options(c.declared)...)
	if err != nil {
		return err
	}
	c.env = env
	c.planner, err = mutating(env)
	return err
}

// mutating returns the planner for the API server's mutating policies.
func mutating(env *cel.Env) (*planner, error) {
	mutatingOnce.Do(func() { mutatingPlanner, errMutating = newPlanner(env, Declarations{}) })
	return mutatingPlanner, errMutating
}

var (
	mutatingOnce    sync.Once
	mutatingPlanner *planner
	errMutating     error
)

// Value evaluates an expression of any type. The number of values in lists and maps of the result is limited by the guards.
func (e *Evaluation) Value(x *Expression) (ref.Val, error) { return e.value(x) }

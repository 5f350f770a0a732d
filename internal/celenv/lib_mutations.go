package celenv

import (
	"github.com/google/cel-go/cel"
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

// WithMutations extends an environment of the API server's own policies by the types of mutations.
func WithMutations(from *cel.Env) (*cel.Env, error) {
	return extended(from, libMutations.options(Declarations{})...)
}

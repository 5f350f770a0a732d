package celenv

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// Declarations are the variables that exist besides object, oldObject, request, namespaceObject and authorizer.
type Declarations struct {
	Params bool
}

// base is the API server's environment for stored expressions, which has every function of every version.
var base = sync.OnceValue(func() *cel.Env {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).StoredExpressionsEnv()
})

// variablesType is the name of the type of `variables`, as messages show it.
const variablesType = "kubernetes.variables"

var (
	admission           = sync.OnceValue(func() *cel.Env { return mustAdmission(Declarations{}) })
	admissionWithParams = sync.OnceValue(func() *cel.Env { return mustAdmission(Declarations{Params: true}) })
)

// mustAdmission cannot fail on any input: it depends on the libraries alone, and the tests call it.
func mustAdmission(d Declarations) *cel.Env {
	env, err := extend(base(), d, cel.DynType, nil)
	if err != nil {
		panic("celenv: the environment of the API server cannot be extended: " + err.Error())
	}
	return env
}

func (d Declarations) env() *cel.Env {
	if d.Params {
		return admissionWithParams()
	}
	return admission()
}

// extend declares the variables of admission, with object and oldObject of the type given.
func extend(from *cel.Env, d Declarations, object *cel.Type, more []*apiservercel.DeclType) (*cel.Env, error) {
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	options := []cel.EnvOption{
		cel.Variable(plugincel.ObjectVarName, object),
		cel.Variable(plugincel.OldObjectVarName, object),
		cel.Variable(plugincel.RequestVarName, request.CelType()),
		cel.Variable(plugincel.NamespaceVarName, namespace.CelType()),
	}
	if d.Params {
		options = append(options, cel.Variable(plugincel.ParamsVarName, cel.DynType))
	}
	options = append(options, declarations(Libraries)...)
	return withTypes(from, append([]*apiservercel.DeclType{request, namespace}, more...), options...)
}

// withTypes extends an environment by types and options.
func withTypes(from *cel.Env, types []*apiservercel.DeclType, options ...cel.EnvOption) (*cel.Env, error) {
	provider := apiservercel.NewDeclTypeProvider(types...)
	provider.SetRecognizeKeywordAsFieldName(true)
	more, err := provider.EnvOptions(from.CELTypeProvider())
	if err != nil {
		return nil, fmt.Errorf("declare types: %w", err)
	}
	return from.Extend(append(options, more...)...)
}

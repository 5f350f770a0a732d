package celenv

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"ephor.invalid/ephor/internal/kubeversion"
)

// Names of variables that the API server's admission policies do not have.
const (
	varVariables    = "variables"
	varExceptions   = "exceptions"
	varTrigger      = "trigger"
	varImages       = "images"
	varReference    = "ref"
	varAttestors    = "attestors"
	varAttestations = "attestations"
)

// variablesType is the name of the type of `variables` in messages.
const variablesType = "kubernetes.variables"

// environments holds one environment for each Declarations, built on first use.
var environments sync.Map // Declarations → func() *cel.Env

func (d Declarations) env() *cel.Env {
	d.Server = environmentOf(d.Server)
	made, known := environments.Load(d)
	if !known {
		made, _ = environments.LoadOrStore(d, sync.OnceValue(func() *cel.Env {
			env, err := extend(d.base(), d, cel.DynType, nil)
			if err != nil { // the error depends only on the libraries, and the tests build every environment
				panic("celenv: the environment cannot be extended: " + err.Error())
			}
			return env
		}))
	}
	return made.(func() *cel.Env)()
}

// Functions returns the names of the functions, operators and macros of the environment, sorted.
func (d Declarations) Functions() []string {
	env := d.env()
	names := slices.Collect(maps.Keys(env.Functions()))
	for _, m := range env.Macros() {
		names = append(names, m.Function())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (d Declarations) base() *cel.Env {
	return baseOf(baseKey{environmentOf(d.Server), d.Kind == Generating})
}

// extend declares the variables of admission, with the given type of object and oldObject, and the libraries.
func extend(from *cel.Env, d Declarations, object *cel.Type, more []*apiservercel.DeclType) (*cel.Env, error) {
	types, options := d.variables(object)
	libraries, theirs := declarations(d)
	env, err := withTypes(from, append(append(types, theirs...), more...), options...)
	if err != nil {
		return nil, err
	}
	return extended(env, libraries...) // last, since a library may resolve further types
}

// variables returns the variables of expressions, except `variables`, with their types.
func (d Declarations) variables(object *cel.Type) ([]*apiservercel.DeclType, []cel.EnvOption) {
	if d.Kind == ImageReferences {
		return nil, []cel.EnvOption{cel.Variable(varReference, cel.StringType)}
	}
	if s := requestOf(d.Kind); s != nil {
		object := s.declared()
		return []*apiservercel.DeclType{object}, []cel.EnvOption{cel.Variable(plugincel.ObjectVarName, object.CelType())}
	}
	request, namespace := plugincel.BuildRequestType(), plugincel.BuildNamespaceType()
	types := []*apiservercel.DeclType{request, namespace}
	options := []cel.EnvOption{cel.Variable(plugincel.ObjectVarName, object)}
	if d.Kind != ImageValidating || d.Mode != JSON {
		options = append(options,
			cel.Variable(plugincel.OldObjectVarName, object),
			cel.Variable(plugincel.RequestVarName, request.CelType()),
			cel.Variable(plugincel.NamespaceVarName, namespace.CelType()))
	}
	if d.Params {
		options = append(options, cel.Variable(plugincel.ParamsVarName, cel.DynType))
	}
	if d.Kind != Native {
		for _, name := range []string{plugincel.ObjectVarName, plugincel.OldObjectVarName} {
			request.Fields[name] = apiservercel.NewDeclField(name, apiservercel.DynType, false, nil, nil)
		}
	}
	if d.Trigger {
		trigger := triggerType()
		types, options = append(types, trigger), append(options, cel.Variable(varTrigger, trigger.CelType()))
	}
	switch d.Kind {
	case Validating, Mutating, Generating:
		exceptions := exceptionsType()
		types, options = append(types, exceptions), append(options, cel.Variable(varExceptions, exceptions.CelType()))
	case ImageValidating:
		named := cel.MapType(cel.StringType, cel.DynType)
		options = append(options, cel.Variable(varImages, cel.MapType(cel.StringType, cel.ListType(cel.StringType))),
			cel.Variable(varAttestors, named), cel.Variable(varAttestations, named))
	}
	return types, options
}

// triggerType returns the type of `trigger`.
func triggerType() *apiservercel.DeclType {
	return apiservercel.NewObjectType("policies.Trigger", map[string]*apiservercel.DeclField{
		plugincel.ObjectVarName:    apiservercel.NewDeclField(plugincel.ObjectVarName, apiservercel.DynType, true, nil, nil),
		plugincel.OldObjectVarName: apiservercel.NewDeclField(plugincel.OldObjectVarName, apiservercel.DynType, true, nil, nil),
	})
}

// exceptionsType returns the type of `exceptions`.
func exceptionsType() *apiservercel.DeclType {
	texts := apiservercel.NewListType(apiservercel.StringType, -1)
	return apiservercel.NewObjectType("policies.Exceptions", map[string]*apiservercel.DeclField{
		"allowedImages": apiservercel.NewDeclField("allowedImages", texts, true, nil, nil),
		"allowedValues": apiservercel.NewDeclField("allowedValues", texts, true, nil, nil),
	})
}

// withObject returns the environment in which object and oldObject have the given type.
func withObject(d Declarations, object *apiservercel.DeclType) (*cel.Env, error) {
	return extend(d.base(), d, object.CelType(), []*apiservercel.DeclType{object})
}

// withVariables extends an environment by the variable `variables`. Fields that are added to its type later are known as well.
func withVariables(from *cel.Env, t *apiservercel.DeclType) (*cel.Env, error) {
	return withTypes(from, []*apiservercel.DeclType{t}, cel.Variable(varVariables, t.CelType()))
}

// withTypes extends an environment by types and options.
func withTypes(from *cel.Env, types []*apiservercel.DeclType, options ...cel.EnvOption) (*cel.Env, error) {
	provider := apiservercel.NewDeclTypeProvider(types...)
	provider.SetRecognizeKeywordAsFieldName(true)
	more, err := provider.EnvOptions(from.CELTypeProvider())
	if err != nil {
		return nil, fmt.Errorf("declare types: %w", err)
	}
	return extended(from, append(options, more...)...)
}

// looseEnvs holds the environments of Declarations.loose, built on first use.
var looseEnvs sync.Map // Declarations → func() (*cel.Env, error)

// loose returns the environment of a version, in which variables of the policy may have any type.
func (d Declarations) loose(server kubeversion.Minor) (*cel.Env, error) {
	d.Server = environmentOf(server)
	made, known := looseEnvs.Load(d)
	if !known {
		made, _ = looseEnvs.LoadOrStore(d, sync.OnceValues(func() (*cel.Env, error) {
			return extended(d.env(), cel.Variable(varVariables, cel.DynType))
		}))
	}
	return made.(func() (*cel.Env, error))()
}
